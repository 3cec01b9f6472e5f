"""What the kill test finds by chance, found in order: a journal that ends anywhere, and what is stored at each call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowagent import Context
from flowagent.core.loops import run_blocking
from flowagent.core.records import Record
from flowagent.stores import MemoryStore, SQLiteStore
from tests.kill import checks
from tests.kill.campaign import RUN, lines_of
from tests.kill.checks import call_of, journal_of
from tests.kill.child import seen_in
from tests.kill.graphs import SUBJECTS, Effects
from tests.kill.inline import go_on, undisturbed


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
        assert sorted(lines) == sorted(line for line in reference.calls if call_of(line) not in before.stored)


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
