"""The word lists: what to look for in a ticket, by language where that matters. Change these before you change code."""

from __future__ import annotations

from typing import Final

from examples.triage.model import Language, Queue


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


COMMON: Final[dict[Language, frozenset[str]]] = {
    "en": _set("the and is it to of we our you that this with not please but for was my"),
    "de": _set("der die das und ist nicht wir sie ich auf mit von zu wie für bitte unserer es ein"),
    "fr": _set("le la les des et est nous vous ne pas que qui dans notre une pour avec ce"),
    "ja": frozenset(),
}
"""Small words that give a language away. Japanese is told by its script."""

QUEUES: Final[tuple[tuple[Queue, tuple[str, ...]], ...]] = (
    ("security", ("vulnerability", "xss", "exploit", "leaks", "disclosure", "sicherheitslücke", "faille", "脆弱性")),
    (
        "billing",
        (
            *("invoice", "billing", "billed", "refund", "charged", "monthly fee", "usage report"),
            *("rechnung", "rückerstattung", "facture", "rembourser", "請求"),
        ),
    ),
    (
        "technical",
        (
            *("error", "offline", "crash", "log in", "login", "jam", "driver", "firmware", "blank"),
            *("print", "drucker", "druckt", "fehler", "kaputt", "erreur", "démarre", "application", "印刷", "エラー"),
        ),
    ),
    ("sales", ("price", "plan", "buying", "order", "seats", "quote", "preis", "angebot", "prix", "devis", "見積")),
)
"""Queues in order of precedence when two have as many hits; security wins with a single one."""

REFUND: Final = ("refund", "money back", "rückerstattung", "erstatten", "rembours", "返金")
URGENT: Final = ("urgent", "immediately", "blocks our", "dringend", "sofort", "至急", "緊急")
NOT_URGENT: Final = ("no rush", "not urgent", "whenever", "keine eile", "pas urgent")
ANGRY: Final = ("outrageous", "worst", "enough", "never", "nobody", "lawyer", "excuses", "unverschämt", "scandale")
THANKS: Final = ("that was it", "you can close this", "solved", "hat geklappt", "c'est réglé", "解決")
SPAM: Final = (
    *("click here", "unsubscribe", "backlinks", "act now", "limited offer", "you have been selected", "winner"),
    "100% free",
)
