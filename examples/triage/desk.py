"""The outside world of the workflow, given to it as `deps`: files to read, replies and refunds to make, time it takes.

None of it is state. A resumed run may get another desk, with the folder elsewhere or without the delay.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Final

from examples.triage import attachments, checks
from examples.triage.model import Message
from examples.triage.parsing import parse
from flowagent import Context

HERE: Final = Path(__file__).resolve().parent


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Where the tickets lie, where replies go, and how the desk works.

    Args:
        tickets: the folder of tickets.
        attachments: the folder of what came with them.
        customers: the customer list, CSV.
        out: where replies and refunds are put; made when first needed.
        limit: refunds above this many euros are put to a person.
        today: the day on which contracts are looked at.
        delay: how long each node pretends to work, in seconds.
    """

    tickets: Path = HERE / "tickets"
    attachments: Path = HERE / "attachments"
    customers: Path = HERE / "customers.csv"
    out: Path = Path(".flowagent/triage")
    limit: Decimal = Decimal(1000)
    today: date = date(2026, 3, 2)
    delay: float = 0.0

    @property
    def effects(self) -> Path:
        """The file in which every node leaves a line, to show which work was really done."""
        return self.out / "effects.txt"

    @property
    def refunds(self) -> Path:
        """The list of refunds that were made."""
        return self.out / "refunds.txt"

    def names(self) -> list[str]:
        """The tickets in the folder, in order."""
        return sorted(path.name for path in self.tickets.glob("*.txt"))

    def read(self, name: str) -> Message:
        """One ticket, parsed."""
        return parse((self.tickets / name).read_bytes())

    def read_before(self, name: str) -> dict[str, Message]:
        """The tickets that came before `name`."""
        return {other: self.read(other) for other in self.names() if other < name}

    def summarise(self, name: str) -> str:
        """What an attachment holds; raises when it cannot be read."""
        return attachments.summarise(self.attachments, name)

    @cached_property
    def customer_list(self) -> Mapping[str, Mapping[str, str]]:
        """The customers by e-mail address."""
        return checks.customers_in(self.customers.read_text(encoding="utf-8"))

    def send(self, name: str, reply: str) -> None:
        """Puts a reply into the outbox. Doing it twice leaves one reply."""
        outbox = self.out / "replies"
        outbox.mkdir(parents=True, exist_ok=True)
        (outbox / name).write_text(reply + "\n", encoding="utf-8")

    def refund(self, amount: Decimal, customer: str, key: str) -> bool:
        """Makes a refund unless one with this key was made before; says whether it was made now.

        The key stays the same when a task is repeated because its process died before it could be recorded:
        whoever pays must ask for it, as payment services do.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        made = self.refunds.read_text(encoding="utf-8") if self.refunds.exists() else ""
        if any(line.endswith(f" {key}") for line in made.splitlines()):
            return False
        append_line(self.refunds, f"{amount} EUR to {customer} {key}")
        return True

    def page(self, name: str) -> str:
        """Wakes whoever is on call for security."""
        return f"paged the security desk about {name}"


async def work(ctx: Context[Desk]) -> None:
    """What every node does first: it leaves the line `task key` in the effects file and takes its time."""
    ctx.deps.out.mkdir(parents=True, exist_ok=True)
    append_line(ctx.deps.effects, f"{ctx.task_id} {ctx.key}")
    await asyncio.sleep(ctx.deps.delay)


def append_line(path: Path, line: str) -> None:
    """Appends a line with a single write, so that neither threads nor a kill leave half of one."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)
