"""What must be true of a run that was killed: decided from what was found, without touching a file or a process."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.kill.child import Seen

STATUSES_OF_THE_DEAD: Final = frozenset({None, "interrupted", "waiting", "completed"})
"""Where a run may stand whose process was killed; None when it was not even stored."""

NEWLINE: Final = "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """What a store held at one moment.

    Attributes:
        seen: what was found there.
        stored: what is recorded and must not run again: tasks, `task#name` for steps within, `task#attempt 1` for
            attempts that failed, `graph/START`.
        needs: by task, what it follows from.
    """

    seen: Seen
    stored: frozenset[str]
    needs: dict[str, frozenset[str]]

    def needed_by(self, call: str) -> frozenset[str]:
        """What must be stored before a task, an item of one, or a step within one starts."""
        task = call.partition("#")[0]
        return self.needs[task if task in self.needs else task.rpartition("[")[0]]


def told(records: Iterable[tuple[int, str, str]]) -> Iterable[tuple[int, str, dict[str, Any]]]:
    """What records say; a `done` that tells of no parent has the task of the record before, which is told as well."""
    before: str | None = None
    for seq, kind, text in records:
        data: dict[str, Any] = json.loads(text)
        if kind == "done" and "parents" not in data:
            data["parents"] = [before]
        before = data["task"] if kind == "done" else None
        yield seq, kind, data


def journal_of(seen: Seen) -> Journal:
    """Read what was seen of a store."""
    stored: set[str] = set()
    needs: dict[str, frozenset[str]] = {}
    for _, kind, data in told(seen.records):
        match kind:
            case "started":
                stored.add("START")
            case "opened":
                stored.add(f"{data['task']}/START")
            case "memo":
                stored.add(f"{data['task']}#{data['name'].removeprefix('step:')}")
            case "failed" if not data["final"]:
                stored.add(f"{data['task']}#attempt {data['attempt']}")
            case "done" | "item":
                stored.add(data["task"])
                needs |= {data["task"]: frozenset(data["parents"])} if "parents" in data else {}
            case _:
                pass
    return Journal(seen=seen, stored=frozenset(stored), needs=needs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """An undisturbed run.

    Attributes:
        store: a file with another such run in it.
        neighbour: what that file held.
        journal: what its store held at the end.
        calls: what was called, a line for each.
        seconds: how long it took.
        routers: the names of its routers.
        once: its tasks that must not be called twice.
        commits: how many moments right before or after a commit it has.
    """

    store: Path
    neighbour: Journal
    journal: Journal
    calls: Sequence[str]
    seconds: float
    routers: frozenset[str]
    once: frozenset[str] = frozenset()
    commits: int = 0

    def needed_by(self, call: str) -> frozenset[str]:
        """What must be stored before a call; a router may be asked before the node ahead of it is stored."""
        needed = self.journal.needed_by(call)
        if call.partition("@")[0] not in self.routers:
            return needed
        begun = frozenset({"START"}) & needed  # what the graph is begun with is stored before anything is called
        return begun.union(*(self.journal.needed_by(before) for before in needed - begun))


def call_of(line: str) -> str:
    """What was called, of a line `call key`."""
    return line.rpartition(" ")[0]


def history_of(seen: Seen, once: frozenset[str]) -> Counter[str]:
    """What happened, but for its order, which may depend on which branch was faster.

    A `once` task that was interrupted has a question more, and its answer; and if that was to try again, an attempt
    more: only a disturbed run has those.
    """
    return Counter(
        json.dumps(step | ({"attempt": 1} if step["task"] in once else {}), sort_keys=True)
        for step in seen.history
        if not (step["task"] in once and step["kind"] in ("asked", "answered"))
    )


def picture_of(seen: Seen, again: frozenset[str]) -> list[str]:
    """The picture, without the boxes of some nodes."""
    names = [f'tooltip="{task.partition("@")[0]} (node)"' for task in again]
    return [line for line in seen.dot.splitlines() if not any(name in line for name in names)]


def tried_again(seen: Seen) -> frozenset[str]:
    """The `once` tasks that somebody said to call again."""
    answers = [json.loads(text) for _, kind, text in seen.records if kind == "answered"]
    return frozenset(one["task"] for one in answers if one["id"].endswith("?once") and one["value"] == "retry")


def kept_of(kind: str, data: dict[str, Any]) -> str | None:
    """What a record keeps that no other record of its run may keep again."""
    match kind:
        case "done" | "item":
            return f"`{data['task']}`"
        case "memo":
            return f"`{data['task']}#{data['name']}`"
        case "opened":
            return f"the beginning of `{data['task']}`"
        case "asked" if data["purpose"] == "ask":
            return f"the question `{data['id']}`"
        case "answered" if not data["id"].endswith("?once"):
            return f"the answer to `{data['id']}`"
        case _:
            return None


def of_store(now: Journal, before: Journal | None) -> Iterable[str]:
    """What is wrong with a store, by itself and after what it held before."""
    records = now.seen.records
    if now.seen.integrity != "ok":
        yield f"SQLite says that its file is damaged: {now.seen.integrity}"
    if [seq for seq, _, _ in records] != list(range(len(records))):
        yield f"the records are numbered {[seq for seq, _, _ in records]}"
    if now.seen.epochs != sorted(now.seen.epochs):
        yield f"the epochs of the records are {now.seen.epochs}: an owner that was replaced has written"
    if before is not None and records[: len(before.seen.records)] != before.seen.records:
        yield "records have changed after they were stored"
    recorded = Counter(kept for _, kind, text in records if (kept := kept_of(kind, json.loads(text))) is not None)
    yield from (f"{kept} was recorded {times} times" for kept, times in recorded.items() if times > 1)
    known: set[str] = set()
    for seq, kind, data in told(records):
        missing = set(data.get("parents", ())) - known - {"START"}
        missing = {parent for parent in missing if not str(parent).endswith("/START")}
        if missing:
            names = sorted(map(str, missing))
            yield f"record {seq} ({kind} `{data['task']}`) stands before {names}, which it follows from"
        known.add(data.get("task", ""))


def of_calls(
    lines: Sequence[str], new: Sequence[str], before: Journal | None, now: Journal, by: Reference
) -> Iterable[str]:
    """What is wrong with what was called.

    Args:
        lines: all calls of the run so far.
        new: those of the process that has just ended.
        before: what was stored when that process began.
        now: what was stored when it ended.
        by: the undisturbed run.
    """
    keys = {call_of(line): line for line in by.calls}
    for line in lines:
        if keys.get(call_of(line)) != line:
            yield f"`{line}` was called; an undisturbed run calls {keys.get(call_of(line), 'no such thing')!r}"
    for line in new:
        call = call_of(line)
        if before is not None and {call, call.partition("#")[0]} & before.stored:
            yield f"`{call}` was recorded before, and was run again"
        missing = by.needed_by(call) - now.stored if call in keys else ()
        if missing:
            yield f"`{call}` was started before {sorted(missing)} was stored"
    called = Counter(call_of(line) for line in lines)
    for call in by.once & {call for call, times in called.items() if times > 1}:
        yield f"`{call}` must not be called twice, and was, though nobody who looked could have allowed it"
    yield from (f"`{call}` is recorded and was never called" for call in (now.stored & set(keys)) - set(called))


def of_killed(now: Journal) -> Iterable[str]:
    """What is wrong with where a killed run stands."""
    if now.seen.status not in STATUSES_OF_THE_DEAD:
        yield f"the killed run stands as {now.seen.status!r}"


def of_end(now: Journal, by: Reference) -> Iterable[str]:
    """In what a run that was killed and resumed ends otherwise than an undisturbed one."""
    seen, wanted = now.seen, by.journal.seen
    if seen.status != "completed":
        yield f"the run ended as {seen.status!r} in its store"
    if seen.state != wanted.state:
        yield f"the state is {seen.state}, not {wanted.state}"
    again = tried_again(seen)  # their boxes tell of it
    drawn, should = picture_of(seen, again), picture_of(wanted, again)
    if drawn != should:
        yield f"the picture is\n{NEWLINE.join(drawn)}\nnot\n{NEWLINE.join(should)}"
    if now.needs != by.journal.needs:
        yield f"the parents are {now.needs}, not {by.journal.needs}"
    happened, wanted_to = history_of(seen, by.once), history_of(wanted, by.once)
    more, less = happened - wanted_to, wanted_to - happened
    yield from (f"the history has, and should not: {step}" for step in more.elements())
    yield from (f"the history lacks: {step}" for step in less.elements())
