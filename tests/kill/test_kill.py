"""Two hundred kills at random and at aimed moments; `python -m tests.kill --kills 5000` makes more of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.kill import checks
from tests.kill.campaign import Campaign, cases_of
from tests.kill.checks import Reference, journal_of
from tests.kill.child import Seen
from tests.kill.graphs import SUBJECTS

KILLS = 200
SEED = random.SystemRandom().randrange(1_000_000)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_killed_run_ends_as_if_nothing_had_happened(campaign: Campaign, subject: str) -> None:
    """State, history and picture are those of an undisturbed run, and nothing that was recorded ran again."""
    tally = campaign.play_kills(SEED, KILLS // len(SUBJECTS), subject)[subject]
    assert not tally.faults, "\n\n".join(tally.faults)
    assert tally.recovery_kills > 0
    assert tally.aimed > 0


def test_what_is_stored_too_late_is_seen(campaign: Campaign) -> None:
    """With durability "exit" a kill loses records, and the test that must never see that elsewhere sees it there."""
    cases = [case for case in cases_of(SEED, range(48), durability="exit") if case.subject == "router"]
    faults = campaign.play(cases)["router"].faults
    assert any("was stored" in fault for fault in faults), faults


# -- the checks themselves: each is shown something wrong ------------------------------------------------------------


def with_other(name: str, value: str) -> Callable[[Seen], Seen]:
    return lambda seen: seen.model_copy(update={name: value})


def without_last(seen: Seen) -> Seen:
    return seen.model_copy(update={"records": seen.records[:-1], "history": seen.history[:-1]})


def with_gap(seen: Seen) -> Seen:
    return seen.model_copy(update={"records": [*seen.records[:3], *seen.records[4:]]})


def with_repeat(seen: Seen) -> Seen:
    number, kind, text = seen.records[1]
    return seen.model_copy(update={"records": [*seen.records, (number + 99, kind, text)]})


def with_memo_twice(seen: Seen) -> Seen:
    memo = next(record for record in seen.records if record[1] == "memo")
    return seen.model_copy(update={"records": [*seen.records, memo]})


def with_other_write(seen: Seen) -> Seen:
    history = [*seen.history]
    history[0] = history[0] | {"writes": {"goal": ["set", ["a table"]]}}
    return seen.model_copy(update={"history": history})


def with_other_parent(seen: Seen) -> Seen:
    number, kind, text = seen.records[-2]
    data = json.loads(text) | {"parents": ["begin"]}
    return seen.model_copy(update={"records": [*seen.records[:-2], (number, kind, json.dumps(data)), seen.records[-1]]})


@pytest.mark.parametrize(
    ("tamper", "fault"),
    [
        (with_other("state", "{}"), "the state is"),
        (with_other("dot", ""), "the picture is"),
        (with_other("status", "failed"), "ended as 'failed'"),
        (with_other("integrity", "row 1 missing"), "is damaged: row 1 missing"),
        (without_last, "the history lacks"),
        (with_gap, "are numbered [0, 1, 2, 4"),
        (with_repeat, "was recorded 2 times"),
        (with_memo_twice, "`reviews#step:north` was recorded 2 times"),
        (with_other_write, "the history has, and should not"),
        (with_other_parent, "the parents are"),
    ],
)
def test_a_store_that_differs_is_told(campaign: Campaign, tamper: Callable[[Seen], Seen], fault: str) -> None:
    """Whatever differs from an undisturbed run is a fault."""
    reference = campaign.references["parallel"]
    now = journal_of(tamper(reference.journal.seen))
    faults = [*checks.of_store(now, None), *checks.of_end(now, reference)]
    assert any(fault in one for one in faults), faults


def test_a_record_that_changed_is_told(campaign: Campaign) -> None:
    """What was stored before a kill is stored after it, byte for byte."""
    journal = campaign.references["parallel"].journal
    longer = replace(journal, seen=journal.seen.model_copy(update={"records": [*journal.seen.records, (99, "", "{}")]}))
    assert list(checks.of_store(journal, longer)) == ["records have changed after they were stored"]


def told(reference: Reference, lines: list[str], stored: set[str], before: set[str]) -> list[str]:
    journal = reference.journal
    now, earlier = (replace(journal, stored=frozenset(names)) for names in (stored, before))
    return list(checks.of_calls(lines, lines, earlier, now, reference))


def test_calls_that_should_not_be_are_told(campaign: Campaign) -> None:
    """Another key, a call that was recorded, a step that was, one too early, one never made: each is a fault."""
    reference = campaign.references["parallel"]
    first = "begin r-1/begin"
    assert told(reference, [first], {"START", "begin"}, {"START"}) == []
    assert "an undisturbed run calls 'begin r-1/begin'" in told(reference, ["begin r-2/begin"], {"START"}, set())[0]
    assert "an undisturbed run calls 'no such thing'" in told(reference, ["other r-1/other"], {"START"}, set())[0]
    assert told(reference, [first], {"START", "begin"}, {"begin"}) == ["`begin` was recorded before, and was run again"]
    steps = ["reviews#north r-1/reviews"]
    stored = {"START", "reviews#north"}
    assert told(reference, steps, {*stored, "begin"}, {"begin"}) == ["`begin` is recorded and was never called"]
    assert "`reviews#north` was recorded before, and was run again" in told(reference, steps, stored, stored)
    assert "`reviews#north` was started before ['begin'] was stored" in told(reference, steps, stored, set())


def test_a_second_call_of_what_must_be_called_once_is_told(campaign: Campaign) -> None:
    """A `once` task that has left its line is not called again, whatever was stored."""
    reference = campaign.references["mixed"]
    lines = ["pay@2 r-1/pay@2"] * 2
    stored = {"START", "settle@2"}
    faults = told(reference, lines, stored, stored)
    assert any("`pay@2` must not be called twice" in fault for fault in faults), faults
    assert not any("must not be called twice" in fault for fault in told(reference, lines[:1], stored, stored))
