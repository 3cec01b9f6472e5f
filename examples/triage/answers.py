"""Answers to the questions of the gate `approve`: by a rule, or by a person at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Final, cast

from examples.triage.graphs import amount_in
from examples.triage.model import Decision

WAITING: Final = 3
"""The exit code of a command that leaves a run waiting for an answer, as that of `flowagent`."""

DECISIONS: Final[tuple[Decision, ...]] = ("approve", "deny")


def by_rule(question: str, up_to: Decimal) -> Decision:
    """Approves a refund up to so many euros."""
    return "approve" if amount_in(question) <= up_to else "deny"


def by_asking(question: str, ask: Callable[[str], str] = input) -> Decision:
    """Asks a person until the answer is one of those that the gate knows; its first letter will do."""
    while True:
        try:
            said = ask(f"   {question} [approve/deny] ").strip().lower()
        except EOFError:
            print("\nno answer: the run waits in its store", file=sys.stderr)
            raise SystemExit(WAITING) from None
        fitting = [decision for decision in DECISIONS if said and decision.startswith(said)]
        if fitting:
            return cast("Decision", fitting[0])
