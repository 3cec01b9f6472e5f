"""Answers to the questions of the gate `approve`: by a rule, or by a person at the terminal."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final, cast

from examples.triage.graphs import amount_in
from examples.triage.model import Decision

DECISIONS: Final[tuple[Decision, ...]] = ("approve", "deny")


def by_rule(question: str, up_to: Decimal) -> Decision:
    """Approves a refund up to so many euros."""
    return "approve" if amount_in(question) <= up_to else "deny"


def by_asking(question: str, ask: Callable[[str], str] = input) -> Decision:
    """Asks a person until the answer is one of those that the gate knows; its first letter will do."""
    while True:
        said = ask(f"  {question} [approve/deny] ").strip().lower()
        fitting = [decision for decision in DECISIONS if said and decision.startswith(said)]
        if fitting:
            return cast("Decision", fitting[0])
