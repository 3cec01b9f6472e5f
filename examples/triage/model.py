"""What a ticket is made of: plain, frozen data that the pure modules pass around and the graphs keep as state."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import BaseModel, ConfigDict

Channel = Literal["email", "chat", "form", "note"]
Language = Literal["en", "de", "fr", "ja"]
Kind = Literal["request", "thanks", "empty", "spam"]
Queue = Literal["billing", "technical", "sales", "security", "duplicates", "closed", "spam"]
Priority = Literal["low", "normal", "high", "urgent"]
Decision = Literal["approve", "deny"]
Fault = Literal["no name", "shouts", "promises", "too long"]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Message(_Value):
    """What a customer wrote, freed of its wrapping: headers, quoted replies, the other side of a chat, HTML.

    `repairs` says what had to be done to the raw bytes before they could be read.
    """

    channel: Channel = "note"
    address: str = ""
    name: str = ""
    topic: str = ""
    subject: str = ""
    body: str = ""
    attachments: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The topic, the subject and the body, for whoever only looks for words."""
        return f"{self.topic}\n{self.subject}\n{self.body}".strip()


class Entitlement(_Value):
    """What the customer list knows of a sender."""

    standing: Literal["covered", "expired", "unknown"]
    name: str = ""
    company: str = ""
    plan: str = ""


class Reading(_Value):
    """What one attachment holds, in a sentence."""

    name: str
    summary: str


class Outcome(_Value):
    """What became of one ticket: what the report prints and the tests compare."""

    file: str
    channel: Channel
    language: Language
    queue: Queue
    priority: Priority
    customer: str
    refund: Decimal | None = None
    decision: Decision | None = None
    drafts: int = 0
    duplicate_of: str | None = None
    readings: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
