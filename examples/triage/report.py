"""The report at the end: what became of every ticket, as markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from examples.triage.model import Outcome


def markdown(outcomes: Sequence[Outcome]) -> str:
    """A table of all tickets, with the sums above it."""
    return "\n".join(
        [
            "# Triage",
            "",
            f"{len(outcomes)} tickets: {_counts(Counter(outcome.queue for outcome in outcomes))}.",
            f"Languages: {_counts(Counter(outcome.language for outcome in outcomes))}.",
            f"Refunds: {_refunds(outcomes)}.",
            f"Attachments that could not be read: {_unreadable(outcomes)}.",
            "",
            "| ticket | shape | language | queue | priority | customer | drafts | notes |",
            "|---|---|---|---|---|---|---|---|",
            *(_row(outcome) for outcome in outcomes),
            "",
        ]
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counter.items(), key=lambda pair: (-pair[1], pair[0])))


def _refunds(outcomes: Sequence[Outcome]) -> str:
    decided = [outcome for outcome in outcomes if outcome.decision is not None]
    words = {"approve": "paid", "deny": "denied", None: ""}
    return (
        ", ".join(f"{outcome.refund} EUR {words[outcome.decision]} ({outcome.customer})" for outcome in decided)
        or "none"
    )


def _unreadable(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(f"{name} ({outcome.file})" for outcome in outcomes for name in outcome.unreadable) or "none"


def _row(outcome: Outcome) -> str:
    cells = [
        outcome.file,
        outcome.channel,
        outcome.language,
        outcome.queue,
        outcome.priority,
        outcome.customer,
        str(outcome.drafts),
        "; ".join(outcome.notes),
    ]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
