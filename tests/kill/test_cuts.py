"""What the kill test finds by chance, found in order.

A journal that ends anywhere; what is stored at each call; and processes that end at each of their points in turn, of
which `python -m tests.kill cuts` tries all.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowagent import Context
from flowagent.core.loops import run_blocking
from flowagent.core.records import Record
from flowagent.stores import MemoryStore, SQLiteStore
from tests.kill import checks
from tests.kill.campaign import Campaign
from tests.kill.checks import call_of, journal_of
from tests.kill.child import seen_in
from tests.kill.effects import Effects, lines_of
from tests.kill.graphs import SUBJECTS
from tests.kill.inline import go_on, undisturbed
from tests.kill.play import RUN, Case

SEED = random.SystemRandom().randrange(1_000_000)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_journal_cut_anywhere_is_gone_on_with(tmp_path: Path, subject: str) -> None:
    """After each record, the last included: the run ends as if it had not been cut, and calls only what was lost."""
    reference = undisturbed(subject, tmp_path)
    whole = [Record(seq, kind, text.encode()) for seq, kind, text in reference.journal.seen.records]  # type: ignore[arg-type]
    for length in range(1, len(whole)):
        store = MemoryStore()
        run_blocking(store.release(run_blocking(store.create(RUN, subject, whole[:length]))))
        before = journal_of(seen_in(store, subject, RUN))
        effects = tmp_path / str(length)
        run = go_on(subject, store, Effects(effects, "", longest=0.0))
        assert run.status == "completed"
        now, lines = journal_of(seen_in(store, subject, RUN)), lines_of(effects)
        faults = [*checks.of_store(now, before), *checks.of_end(now, reference)]
        assert not faults, f"cut after record {length - 1}: {faults}"
        lost = [call for call in map(call_of, reference.calls) if not {call, call.partition("#")[0]} & before.stored]
        assert sorted(map(call_of, lines)) == sorted(lost)


class Watching(Effects):
    """Notes with each call what is stored when it is made."""

    def __init__(self, path: Path, look: Callable[[], frozenset[str]]) -> None:
        super().__init__(path, "", longest=0.002)
        self._look = look
        self.stored: list[tuple[str, frozenset[str]]] = []

    def leave(self, ctx: Context[Effects, Any], part: str) -> None:
        """Leave the line, and look."""
        self.stored.append((f"{ctx.task_id}#{part}".rstrip("#"), self._look()))
        super().leave(ctx, part)


@pytest.mark.parametrize("durability", ["step", "fast"])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_call_is_made_when_what_it_follows_from_is_stored(tmp_path: Path, subject: str, durability: str) -> None:
    """Whoever looks into the file during any call finds there all that the call follows from."""
    reference = undisturbed(subject, tmp_path)
    store = SQLiteStore(tmp_path / "runs.db")

    def look() -> frozenset[str]:
        return journal_of(seen_in(SQLiteStore(tmp_path / "runs.db"), subject, RUN)).stored

    watching = Watching(tmp_path / "watched", look)
    run = go_on(subject, store, watching, durability=durability)
    assert run.status == "completed"
    missing = {call: reference.needed_by(call) - stored for call, stored in watching.stored}
    assert {call: names for call, names in missing.items() if names} == {}
    assert len(watching.stored) == len(reference.calls)


SHARE = 8
"""How many points of each graph are tried here, and how many pairs of points a quarter of that."""


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_process_that_ends_at_any_point_is_gone_on_with(campaign: Campaign, subject: str) -> None:
    """Before and after any operation of store, file and node, and again in the recovery: it ends as if undisturbed."""
    chance = random.Random(SEED)
    points = len(campaign.points(subject, "run"))
    firsts = chance.sample(range(points), SHARE)
    cuts = [(first,) for first in firsts] + [(first, chance.randrange(points)) for first in firsts[: SHARE // 4]]
    cases = [Case(SEED, number, subject, "step", cut, "run") for number, cut in enumerate(cuts)]
    tally = campaign.play(cases)[subject]
    assert not tally.faults, "\n\n".join(tally.faults)
    assert tally.kills >= SHARE // 2, f"of {len(cases)} processes only {tally.kills} came by their point"


def test_the_points_are_what_they_are_said_to_be(campaign: Campaign) -> None:
    """Of the store's operations, its statements, its file, the nodes and what is encoded, none is left out."""
    names = set(campaign.points("mixed", "run")) | set(campaign.points("cycle", "run"))
    operations = {
        f"{when} {what}" for when in ("before", "after") for what in ("create", "resume", "append", "release")
    }
    statements = {f"{when} {word}" for when in ("before", "after") for word in ("BEGIN", "INSERT", "UPDATE", "COMMIT")}
    rest = {"file write", "file sync", "node called", "node returns", "encode done_json", "encode snapshot"}
    assert names >= operations | statements | rest, names
