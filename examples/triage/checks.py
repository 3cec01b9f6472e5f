"""What can be found out about a ticket: language, kind, urgency, entitlement, duplicates, refunds, queue.

Pure functions over plain data. They look for words, they do not understand; that is enough to sort a post box.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from difflib import SequenceMatcher
from io import StringIO

from examples.triage import words
from examples.triage.model import Entitlement, Kind, Language, Message, Priority, Queue

_WORD = re.compile(r"[^\W\d_]+")
_KANA_OR_KANJI = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_AMOUNT = re.compile(
    r"(?:(?:EUR|€)\s?(?P<after>\d[\d.,]*\d))|(?:(?P<before>\d[\d.,]*)\s?(?:EUR\b|€|euros?\b))", re.IGNORECASE
)
_MOSTLY = 0.7


def language_of(text: str) -> Language:
    """The language that most of the small words belong to; English when there are none."""
    if len(_KANA_OR_KANJI.findall(text)) * 4 > len(text):
        return "ja"
    counts = Counter(_WORD.findall(text.lower()))
    hits: dict[Language, int] = {
        language: sum(counts[word] for word in common) for language, common in words.COMMON.items()
    }
    return max(hits, key=lambda language: hits[language])


def kind_of(message: Message) -> Kind:
    """Whether somebody wants something, or the ticket can be closed as it is."""
    text = message.text.lower()
    if not message.body:
        return "empty"
    if _hits(text, words.SPAM) >= 3:
        return "spam"
    if _hits(text, words.THANKS) and not _hits(text, words.REFUND):
        return "thanks"
    return "request"


def _hits(text: str, wanted: Iterable[str]) -> int:
    return sum(word in text for word in wanted)


def priority_of(message: Message) -> Priority:
    """How fast somebody should look: urgent words count, shouting counts, "no rush" counts against."""
    text = message.text.lower()
    score = 2 * _hits(text, words.URGENT) + _hits(text, words.ANGRY) + (share_of_shouting(message.body) > 0.1)
    if _hits(text, words.NOT_URGENT):
        return "low"
    return "urgent" if score >= 4 else "high" if score >= 2 else "normal"


def share_of_shouting(text: str) -> float:
    """How many of the words are written in capitals (short ones and product names do not count), from 0 to 1."""
    long = [word for word in _WORD.findall(text) if len(word) > 3]
    return sum(word.isupper() for word in long) / len(long) if long else 0.0


def refund_wanted(message: Message) -> Decimal | None:
    """The amount in euros that is asked back, or None. The largest one counts when several are named."""
    if not _hits(message.text.lower(), words.REFUND):
        return None
    amounts = [_decimal(found["after"] or found["before"]) for found in _AMOUNT.finditer(message.text)]
    return max(amounts, default=None)


def _decimal(number: str) -> Decimal:
    """Reads 1.249,00 as well as 1,249.00 and 49: a separator before exactly two last digits is the decimal one."""
    digits = re.sub(r"[.,]", "", number)
    has_cents = re.search(r"[.,]\d\d$", number.rstrip(".,")) is not None
    return Decimal(digits).scaleb(-2) if has_cents else Decimal(digits + ".00")


def queue_of(message: Message) -> Queue:
    """The desk with the most words in the ticket; security needs one word only, technical is where doubts go."""
    text = message.text.lower()
    hits: dict[Queue, int] = {queue: _hits(text, wanted) for queue, wanted in words.QUEUES}
    if hits["security"]:
        return "security"
    best = max(hits, key=lambda queue: hits[queue])
    return best if hits[best] else "technical"


def customers_in(text: str) -> dict[str, Mapping[str, str]]:
    """The customer list by e-mail address."""
    return {row["email"]: row for row in csv.DictReader(StringIO(text))}


def entitlement_of(address: str, customers: Mapping[str, Mapping[str, str]], today: date) -> Entitlement:
    """What the sender may expect from us today."""
    row = customers.get(address)
    if row is None:
        return Entitlement(standing="unknown")
    covered = date.fromisoformat(row["contract_until"]) >= today
    return Entitlement(
        standing="covered" if covered else "expired", name=row["name"], company=row["company"], plan=row["plan"]
    )


def duplicate_among(message: Message, earlier: Mapping[str, Message]) -> str | None:
    """The name of an earlier ticket by the same sender that says nearly the same, or None."""
    for name, other in earlier.items():
        if message.address and message.address == other.address and overlap(message.body, other.body) > _MOSTLY:
            return name
    return None


def overlap(one: str, other: str) -> float:
    """How much of the shorter text stands in the longer one in the same order, word by word, from 0 to 1."""
    left, right = _WORD.findall(one.lower()), _WORD.findall(other.lower())
    shorter = min(len(left), len(right))
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / shorter if shorter else 0.0
