"""Writes replies and finds fault with them. The first draft is naive on purpose; each fault found mends the next."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from examples.triage.model import Decision, Fault, Language, Message

_LONGEST: Final = 800
_QUOTE: Final = 160
_LOUD: Final = re.compile(r"\b[^\W\d_]{4,}\b")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a reply is written from."""

    message: Message
    language: Language
    urgent: bool
    name_on_file: str = ""
    readings: tuple[str, ...] = ()
    refund: Decimal | None = None
    decision: Decision | None = None


@dataclass(frozen=True, kw_only=True)
class Phrases:
    """The sentences of one language."""

    greeting: str
    greeting_to: str
    wrote: str
    attached: str
    approve: str
    deny: str
    promise: str
    soon: str
    regards: str


PHRASES: Final[dict[Language, Phrases]] = {
    "en": Phrases(
        greeting="Hello,",
        greeting_to="Hello {},",
        wrote="thank you for your message. You wrote: “{}”",
        attached="In what you attached we found: {}.",
        approve="We have refunded {} EUR to you.",
        deny="We cannot refund {} EUR to you; a colleague will explain why.",
        promise="We guarantee that this is solved immediately.",
        soon="Someone is looking at this now and writes to you today.",
        regards="Kind regards\nKestrel Support",
    ),
    "de": Phrases(
        greeting="Guten Tag,",
        greeting_to="Guten Tag {},",
        wrote="vielen Dank für Ihre Nachricht. Sie schrieben: „{}“",
        attached="In Ihren Anlagen haben wir gefunden: {}.",
        approve="Wir haben Ihnen {} EUR erstattet.",
        deny="Wir können Ihnen {} EUR nicht erstatten; eine Kollegin erklärt Ihnen, warum.",
        promise="Wir garantieren, dass das sofort gelöst wird.",
        soon="Wir sehen uns das gerade an und schreiben Ihnen heute noch.",
        regards="Freundliche Grüße\nKestrel Support",
    ),
    "fr": Phrases(
        greeting="Bonjour,",
        greeting_to="Bonjour {},",
        wrote="merci de votre message. Vous écrivez : « {} »",
        attached="Dans vos pièces jointes nous avons trouvé : {}.",
        approve="Nous vous avons remboursé {} EUR.",
        deny="Nous ne pouvons pas vous rembourser {} EUR ; une collègue vous dira pourquoi.",
        promise="Nous garantissons une solution immédiate.",
        soon="Quelqu'un s'en occupe et vous écrit aujourd'hui.",
        regards="Cordialement\nKestrel Support",
    ),
    "ja": Phrases(
        greeting="お客様",
        greeting_to="{}様",
        wrote="お問い合わせありがとうございます。次の内容を承りました。「{}」",
        attached="添付ファイルの内容：{}。",
        approve="{}ユーロを返金いたしました。",
        deny="{}ユーロの返金はいたしかねます。担当者よりご説明いたします。",
        promise="すぐに解決することを保証いたします。",
        soon="ただいま確認しております。本日中にご連絡いたします。",
        regards="Kestrelサポート",
    ),
}


def draft_reply(facts: Facts, avoid: Collection[Fault] = ()) -> str:
    """A reply in the customer's language that commits none of the faults in `avoid`, as far as that can be done."""
    phrases = PHRASES[facts.language]
    name = facts.message.name or (facts.name_on_file if "no name" in avoid else "")
    parts = [
        phrases.greeting_to.format(name) if name else phrases.greeting,
        phrases.wrote.format(_quote(facts.message, avoid)),
    ]
    if facts.readings:
        parts.append(phrases.attached.format("; ".join(facts.readings)))
    if facts.decision:
        parts.append((phrases.approve if facts.decision == "approve" else phrases.deny).format(facts.refund))
    if facts.urgent:
        parts.append(phrases.soon if "promises" in avoid else phrases.promise)
    return "\n\n".join([*parts, phrases.regards])


def _quote(message: Message, avoid: Collection[Fault]) -> str:
    words = " ".join((message.subject or message.body if "too long" in avoid else message.body).split())
    if "too long" in avoid and len(words) > _QUOTE:
        words = words[:_QUOTE].rsplit(" ", 1)[0] + " …"
    return _LOUD.sub(lambda word: _quietly(word.group()), words) if "shouts" in avoid else words


def _quietly(word: str) -> str:
    return word.lower() if word.isupper() else word


def faults_in(reply: str, language: Language) -> list[Fault]:
    """What the style guide has against a reply, the worst first."""
    phrases = PHRASES[language]
    found: list[tuple[bool, Fault]] = [
        (reply.startswith(phrases.greeting), "no name"),
        (any(word.isupper() for word in _LOUD.findall(reply)), "shouts"),
        (phrases.promise in reply, "promises"),
        (len(reply) > _LONGEST, "too long"),
    ]
    return [fault for is_there, fault in found if is_there]
