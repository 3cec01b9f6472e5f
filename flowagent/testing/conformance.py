"""What every store must do, as checks that any store can be put to.

Each check is an async function that takes a fresh, empty store; its docstring is the promise. They need no test
framework: `check_store` runs them all. With pytest, have one test for each:

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    async def test_my_store(check: Check, tmp_path: Path) -> None:
        await check(MyStore(tmp_path / "runs"))
"""

from __future__ import annotations

import asyncio
import gc
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from flowagent.core.records import Past, Record, RecordKind, Snapshot
from flowagent.errors import FlowAgentError, RunConflict, RunExists, RunNotFound, StoreError
from flowagent.stores.base import Lease, Store

Check = Callable[[Store], Awaitable[None]]

_CHECKS: list[Check] = []


async def check_store(make_store: Callable[[], Store | Awaitable[Store]]) -> None:
    """Put a store to every check, each on a fresh one.

    Args:
        make_store: makes an empty store; plain or async. It is closed after each check.

    Raises:
        ExceptionGroup: one exception for each check that failed, with a note that names it.

    Example:
        >>> from flowagent.stores import MemoryStore
        >>> asyncio.run(check_store(MemoryStore))
    """
    failures: list[Exception] = []
    for check in CHECKS:
        made = make_store()
        store = await made if inspect.isawaitable(made) else made
        try:
            await check(store)
        except Exception as error:  # noqa: BLE001 - all of them are raised together
            error.add_note(f"in the check `{check.__name__}`: {inspect.getdoc(check)}")
            failures.append(error)
        finally:
            await store.close()
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {len(CHECKS)} checks failed", failures)


def _check(function: Check) -> Check:
    _CHECKS.append(function)
    return function


# ------------------------------------------------------------------------------------------------------ records


@_check
async def records_come_back_as_they_went_in(store: Store) -> None:
    """What was created and appended is read back, in order, byte for byte."""
    lease = await store.create("r", "g", _records(0, 2))
    await store.append(lease, _records(2, 1))
    await store.append(lease, _records(3, 4))
    _same(await store.read("r"), _records(0, 7), "the records")
    _same(lease.next_seq, 7, "the lease's next number")


@_check
async def any_bytes_are_kept(store: Store) -> None:
    """NUL characters, escapes of them, other scripts, emptiness and megabytes come back unchanged."""
    texts = [
        b'"W\x00s\x00l\x00"',
        rb'"a \u0000 b"',
        "{'ключ': '値 🦉'}".encode(),
        b"",
        b"x" * 3_000_000,
        bytes(range(256)),
    ]
    records = [Record(seq, "done", text) for seq, text in enumerate(texts)]
    lease = await store.create("r", "g", records)
    await store.append(lease, [], snapshot=Snapshot(5, texts[0]))
    _same(await store.read("r"), records, "the records")
    _same(await store.snapshot("r"), Snapshot(5, texts[0]), "the snapshot")


@_check
async def reading_starts_after_a_number(store: Store) -> None:
    """`read(after=n, upto=m)` gives the records above n and not above m, and none when there are none."""
    await store.create("r", "g", _records(0, 5))
    _same(await store.read("r", after=2), _records(3, 2), "the records after 2")
    _same(await store.read("r", after=4), [], "the records after the last")
    _same(await store.read("r", after=99), [], "the records after more than there are")
    _same(await store.read("r", upto=0), _records(0, 1), "the first record")
    _same(await store.read("r", after=1, upto=3), _records(2, 2), "the records 2 and 3")
    _same(await store.read("r", after=3, upto=99), _records(4, 1), "the records up to more than there are")
    _same(await store.read("r", after=3, upto=3), [], "the records of an empty span")


@_check
async def an_append_may_be_empty(store: Store) -> None:
    """Without records an append stores a status, a snapshot, or nothing, and moves no number."""
    lease = await store.create("r", "g", _records(0, 1))
    await store.append(lease, [])
    await store.append(lease, [], status="waiting")
    await store.append(lease, [], snapshot=Snapshot(0, b"{}"))
    _same(lease.next_seq, 1, "the lease's next number")
    _same((await store.info("r")).status, "waiting", "the status")


@_check
async def numbers_follow_on(store: Store) -> None:
    """Records that repeat a number or leave one out are refused whole; the lease is good for the right ones."""
    lease = await store.create("r", "g", _records(0, 1))
    await _refused(store.append(lease, _records(0, 1)), RunConflict)
    await _refused(store.append(lease, _records(2, 1)), StoreError)
    await _refused(store.append(lease, [*_records(1, 1), *_records(3, 1)]), StoreError)
    await _refused(store.create("q", "g", _records(1, 1)), StoreError)
    await _refused(store.info("q"), RunNotFound)
    await store.append(lease, _records(1, 1))
    _same(await store.read("r"), _records(0, 2), "the records")


@_check
async def what_is_durable_is_the_callers_choice(store: Store) -> None:
    """Appends that may be lost in a power cut are read back like others, between others."""
    lease = await store.create("r", "g", _records(0, 1), durable=False)
    await store.append(lease, _records(1, 1), durable=False)
    await store.append(lease, _records(2, 1), durable=True)
    await store.append(lease, _records(3, 2), durable=False)
    _same(await store.read("r"), _records(0, 5), "the records")


@_check
async def committing_on_the_calling_thread_changes_nothing(store: Store) -> None:
    """A lease that may block behaves like one that may not."""
    lease = await store.create("r", "g", _records(0, 1), blocking=True)
    _same(lease.blocking, True, "whether it may block")
    await store.append(lease, _records(1, 1))
    await store.append(lease, _records(2, 2), status="waiting", snapshot=Snapshot(3, b"{}"))
    await store.release(lease)
    again = await store.claim("r", blocking=True)
    _same((again.epoch, again.next_seq), (2, 4), "epoch and next number")
    _same(await store.read("r"), _records(0, 4), "the records")


@_check
async def runs_do_not_mix(store: Store) -> None:
    """Runs that are written side by side keep their own records."""
    await asyncio.gather(*(_write_run(store, f"r{number}", 10) for number in range(50)))
    for number in range(50):
        _same(await store.read(f"r{number}"), _records(0, 10, f"r{number}"), f"the records of r{number}")


@_check
async def ids_are_free_text(store: Store) -> None:
    """A run id, and a graph's name, may hold spaces, quotes, slashes, NUL and other scripts."""
    ids = ["a b", "x'; DROP TABLE runs; --", 'say "hi"', "../up/run", "ключ/値/🦉", "nul\0nul", "A", "a"]
    for run_id in ids:
        await store.create(run_id, f"graph {run_id}", _records(0, 1, run_id))
    for run_id in ids:
        info = await store.info(run_id)
        _same((info.run_id, info.graph), (run_id, f"graph {run_id}"), "id and graph")
        _same(await store.read(run_id), _records(0, 1, run_id), f"the records of {run_id!r}")
    await _refused(store.create("\ud800", "g", []), StoreError)
    await _refused(store.create("", "g", []), StoreError)


# ---------------------------------------------------------------------------------------------------- snapshots


@_check
async def the_newest_snapshot_is_given(store: Store) -> None:
    """`snapshot` gives the last one stored, and None when there is none."""
    lease = await store.create("r", "g", _records(0, 1))
    _same(await store.snapshot("r"), None, "the snapshot of a run without one")
    for seq in range(1, 5):
        await store.append(lease, _records(seq, 1), snapshot=Snapshot(seq, b"position %d" % seq))
    _same(await store.snapshot("r"), Snapshot(4, b"position 4"), "the snapshot")


# --------------------------------------------------------------------------------------------------------- runs


@_check
async def info_tells_what_is_known(store: Store) -> None:
    """`info` tells graph, status, epoch, next number and times; a status is noted with its records."""
    lease = await store.create("r", "triage", _records(0, 1))
    born = await store.info("r")
    _same((born.run_id, born.graph, born.status, born.epoch, born.next_seq), ("r", "triage", "running", 1, 1), "info")
    _same((born.parent, born.parent_seq), (None, -1), "the parent")
    _true(born.owner, "a held run has an owner")
    _true(born.created <= born.updated <= born.lease_until, "the times are in order")
    await store.append(lease, _records(1, 1), status="completed")
    await store.release(lease)
    done = await store.info("r")
    _same((done.status, done.next_seq, done.owner, done.created), ("completed", 2, None, born.created), "info")


@_check
async def a_run_without_a_process_is_interrupted(store: Store) -> None:
    """A run that was let go of while it was running is reported as interrupted, everywhere."""
    lease = await store.create("r", "g", _records(0, 1))
    await store.release(lease)
    _same((await store.info("r")).status, "interrupted", "the status")
    _same([run.run_id for run in await store.runs(statuses=["interrupted"])], ["r"], "the interrupted runs")
    _same(await store.runs(statuses=["running"]), [], "the running runs")


@_check
async def what_is_not_there_is_said(store: Store) -> None:
    """Every question about an unknown run raises `RunNotFound` with the id and the store's name."""
    for asked in (store.info, store.read, store.snapshot, store.claim, store.request_cancel, store.delete):
        error = await _refused(asked("nobody"), RunNotFound)
        _true("nobody" in str(error) and store.name in str(error), f"the error names run and store: {error}")
    _same(await store.runs(), [], "the runs of an empty store")


@_check
async def an_id_is_taken_once(store: Store) -> None:
    """Creating a run whose id is taken raises `RunExists` and changes nothing."""
    lease = await store.create("r", "g", _records(0, 1))
    await _refused(store.create("r", "other", _records(0, 3)), RunExists)
    await store.append(lease, _records(1, 1))
    _same(await store.read("r"), _records(0, 2), "the records")
    _same((await store.info("r")).graph, "g", "the graph")


@_check
async def runs_are_listed_newest_first(store: Store) -> None:
    """`runs` filters by graph and status, newest first, up to a limit."""
    for number in range(6):
        lease = await store.create(f"r{number}", "odd" if number % 2 else "even", _records(0, 1))
        await store.append(lease, [], status="completed" if number < 3 else "failed")
        await store.release(lease)
    held = await store.create("r6", "even", _records(0, 1))
    _same(await _ids(store), ["r6", "r5", "r4", "r3", "r2", "r1", "r0"], "all runs")
    _same(await _ids(store, graph="even"), ["r6", "r4", "r2", "r0"], "those of a graph")
    _same([run.run_id for run in await store.runs(statuses=["failed"])], ["r5", "r4", "r3"], "the failed ones")
    _same(
        [run.run_id for run in await store.runs(statuses=["completed", "running"], limit=2)],
        [held.run_id, "r2"],
        "two of the completed and running ones",
    )
    _same(
        [run.run_id for run in await store.runs(graph="odd", statuses=["failed"])], ["r5", "r3"], "by graph and status"
    )
    _same(await store.runs(limit=0), [], "none of them")


# ------------------------------------------------------------------------------------------------------- leases


@_check
async def a_run_has_one_owner(store: Store) -> None:
    """A held run cannot be claimed or deleted; one let go of can, and its epoch goes up by one."""
    first = await store.create("r", "g", _records(0, 1))
    await _refused(store.claim("r"), RunConflict)
    await _refused(store.delete("r"), RunConflict)
    await store.release(first)
    second = await store.claim("r")
    _same((second.run_id, second.epoch, second.next_seq), ("r", 2, 1), "the lease")
    await _refused(store.claim("r"), RunConflict)
    _same((await store.info("r")).status, "running", "the status")


@_check
async def a_lease_that_was_let_go_of_writes_nothing(store: Store) -> None:
    """After release, and after a claim by another, an append raises `RunConflict` and stores nothing."""
    old = await store.create("r", "g", _records(0, 1))
    await store.release(old)
    for status in (None, "completed"):
        await _refused(store.append(old, _records(1, 1), status=status), RunConflict)
        await _refused(store.append(old, [], status="completed"), RunConflict)
    new = await store.claim("r")
    await _refused(store.append(old, _records(1, 1)), RunConflict)
    await _refused(store.append(old, [], snapshot=Snapshot(0, b"old")), RunConflict)
    await store.append(new, _records(1, 1))
    await store.release(old)  # Does nothing.
    await store.append(new, _records(2, 1))
    _same(await store.read("r"), _records(0, 3), "the records")
    _same(await store.snapshot("r"), None, "the snapshot")


@_check
async def resuming_takes_hold_and_reads(store: Store) -> None:
    """`resume` claims a run and gives what it was before: its info, first record, newest snapshot, what comes after."""
    lease = await store.create("r", "g", _records(0, 4))
    await store.append(lease, [], snapshot=Snapshot(1, b"{1}"))
    await store.append(lease, _records(4, 2), snapshot=Snapshot(3, b"{3}"), status="waiting")
    await store.release(lease)
    info = await store.info("r")
    again, past = await store.resume("r")
    _same(past, Past(info, _records(0, 1)[0], Snapshot(3, b"{3}"), _records(4, 2)), "the past")
    again = _held(again)
    _same((again.run_id, again.epoch, again.next_seq), ("r", 2, 6), "the lease")
    _same((await store.info("r")).status, "running", "the status")
    await _refused(store.resume("r"), RunConflict)
    await store.append(again, _records(6, 1))
    _same(await store.read("r"), _records(0, 7), "the records")


@_check
async def what_is_needed_to_go_on_is_read_without_taking_hold(store: Store) -> None:
    """`past` gives what `resume` would, also of a run that is held, and changes nothing."""
    await _refused(store.past("r"), RunNotFound)
    await _refused(store.resume("r"), RunNotFound)
    lease = await store.create("r", "g", _records(0, 3))
    _same(await store.past("r"), Past(await store.info("r"), _records(0, 1)[0], None, _records(1, 2)), "the past")
    await store.append(lease, _records(3, 1), snapshot=Snapshot(3, b"{}"))
    info = await store.info("r")
    _same(await store.past("r"), Past(info, _records(0, 1)[0], Snapshot(3, b"{}"), []), "the past")
    await store.release(lease)
    _same((await store.past("r")).info.status, "interrupted", "the status")
    _same((await store.info("r")).epoch, 1, "the epoch")


@_check
async def a_completed_run_is_read_and_not_taken_hold_of(store: Store) -> None:
    """`resume` of a completed run gives no lease and changes nothing, also while its last owner still holds it."""
    lease = await store.create("r", "g", _records(0, 2))
    await store.append(lease, _records(2, 1), status="completed")
    for _ in ("held", "let go of"):
        info = await store.info("r")
        _same(await store.resume("r"), (None, Past(info, _records(0, 1)[0], None, _records(1, 2))), "lease and past")
        _same(await store.info("r"), info, "info")
        await store.release(lease)


@_check
async def however_many_records_there_are_all_can_be_read(store: Store) -> None:
    """Of very many records `resume` may give the first ones alone; the others are read as from the last one on."""
    await store.release(await store.create("r", "g", _records(0, 3000)))
    lease, past = await store.resume("r")
    _same((_held(lease).next_seq, past.info.next_seq), (3000, 3000), "the next number")
    last = past.records[-1].seq if past.records else 0
    rest = await store.read("r", after=last, upto=past.info.next_seq - 1)
    _same([past.first, *past.records, *rest], _records(0, 3000), "the records")


@_check
async def of_many_resumes_one_wins(store: Store) -> None:
    """When several callers resume a run at once, one gets it and the others `RunConflict`."""
    await store.release(await store.create("r", "g", _records(0, 1)))
    outcomes = await asyncio.gather(*(store.resume("r") for _ in range(8)), return_exceptions=True)
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    _same({type(error) for error in errors}, {RunConflict}, "the errors")
    _same(len(errors), 7, "the number of errors")


@_check
async def of_many_claims_one_wins(store: Store) -> None:
    """When several callers claim a run at once, one gets it and the others `RunConflict`."""
    await store.release(await store.create("r", "g", _records(0, 1)))
    outcomes = await asyncio.gather(*(store.claim("r") for _ in range(8)), return_exceptions=True)
    leases = [outcome for outcome in outcomes if isinstance(outcome, Lease)]
    _same(len(leases), 1, "the number of leases")
    _same({type(outcome) for outcome in outcomes if not isinstance(outcome, Lease)}, {RunConflict}, "the errors")


@_check
async def a_forgotten_lease_does_not_block_its_process(store: Store) -> None:
    """A lease that nobody refers to any more, though it was never released, stops nobody in this process."""
    lease = await store.create("r", "g", _records(0, 1))
    del lease
    gc.collect()
    _same((await store.info("r")).status, "interrupted", "the status")
    _same((await store.claim("r")).epoch, 2, "the epoch")


@_check
async def a_request_to_cancel_reaches_the_owner_once(store: Store) -> None:
    """`on_cancel` is called once, also when it is set after the request; nobody is asked when nobody holds it."""
    calls: list[str] = []
    lease = await store.create("r", "g", _records(0, 1))
    lease.on_cancel = lambda: calls.append("asked")
    _same([await store.request_cancel("r"), await store.request_cancel("r")], [True, True], "whether one was asked")
    _same(calls, ["asked"], "the calls")
    await store.release(lease)
    _same(await store.request_cancel("r"), False, "whether one was asked")
    late = await store.claim("r")
    await store.request_cancel("r")
    late.on_cancel = lambda: calls.append("asked late")
    _same(calls, ["asked", "asked late"], "the calls")


@_check
async def a_cancelled_append_leaves_a_true_lease(store: Store) -> None:
    """After a caller was cancelled in an append, the lease tells whether the records are stored."""
    lease = await store.create("r", "g", _records(0, 1))
    for _ in range(20):
        task = asyncio.ensure_future(store.append(lease, _records(lease.next_seq, 1)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    _same(await store.read("r"), _records(0, lease.next_seq), "the records")
    await store.append(lease, _records(lease.next_seq, 1))


# -------------------------------------------------------------------------------------------- forks and deletes


@_check
async def a_fork_shares_its_first_records(store: Store) -> None:
    """A child reads its parent's records up to the cut, then its own; the parent may go on without it."""
    parent = await store.create("p", "g", _records(0, 5, "p"))
    child = await store.create("c", "g", _records(3, 2, "c"), parent="p", parent_seq=2)
    _same(child.next_seq, 5, "the child's next number")
    await store.append(parent, _records(5, 1, "p"))
    await store.append(child, _records(5, 1, "c"))
    grandchild = await store.create("gc", "g", _records(2, 1, "gc"), parent="c", parent_seq=1)
    trunk = _records(0, 5, "p")
    _same(await store.read("c"), [*trunk[:3], *_records(3, 3, "c")], "the child's records")
    _same(await store.read("c", after=1), [trunk[2], *_records(3, 3, "c")], "the child's records after 1")
    _same(await store.read("c", after=3), _records(4, 2, "c"), "the child's records after 3")
    _same(await store.read("c", upto=1), trunk[:2], "the child's records up to 1")
    _same(await store.read("c", after=1, upto=4), [trunk[2], *_records(3, 2, "c")], "the child's records 2 to 4")
    _same(await store.read("gc"), [*trunk[:2], *_records(2, 1, "gc")], "the grandchild's records")
    _same(await store.read("p"), _records(0, 6, "p"), "the parent's records")
    _same(await store.past("c"), Past(await store.info("c"), trunk[0], None, (await store.read("c"))[1:]), "the past")
    info = await store.info("c")
    _same((info.parent, info.parent_seq, info.next_seq), ("p", 2, 6), "info")
    await store.release(child)
    _same((await store.claim("c")).next_seq, 6, "the child's next number")
    _same(grandchild.next_seq, 3, "the grandchild's next number")


@_check
async def a_fork_needs_a_record_to_start_from(store: Store) -> None:
    """A child of an unknown parent, or of a record it does not have, is refused and not made."""
    await store.create("p", "g", _records(0, 2))
    await _refused(store.create("c", "g", [], parent="nobody", parent_seq=0), RunNotFound)
    await _refused(store.create("c", "g", [], parent="p", parent_seq=2), StoreError)
    await _refused(store.create("c", "g", [], parent="p"), StoreError)
    await _refused(store.info("c"), RunNotFound)


@_check
async def a_shared_run_is_not_deleted(store: Store) -> None:
    """A run whose records another shares is kept until that one is gone."""
    await store.release(await store.create("p", "g", _records(0, 2)))
    await store.release(await store.create("c", "g", [], parent="p", parent_seq=1))
    error = await _refused(store.delete("p"), RunConflict)
    _true("`c`" in str(error), f"the error names the child: {error}")
    _same(await store.read("c"), _records(0, 2), "the child's records")
    await store.delete("c")
    await store.delete("p")
    _same(await store.runs(), [], "the runs")


@_check
async def a_deleted_run_leaves_nothing(store: Store) -> None:
    """After delete the id is free, and a new run of that id has nothing of the old one's."""
    old = await store.create("r", "g", _records(0, 5, "old"))
    await store.append(old, [], snapshot=Snapshot(4, b"old"))
    await store.release(old)
    await store.delete("r")
    await _refused(store.info("r"), RunNotFound)
    await _refused(store.append(old, _records(5, 1)), RunConflict)
    await store.create("r", "g", _records(0, 1, "new"))
    await _refused(store.append(old, _records(5, 1)), RunConflict)
    _same(await store.read("r"), _records(0, 1, "new"), "the records")
    _same(await store.snapshot("r"), None, "the snapshot")
    _same((await store.info("r")).epoch, 1, "the epoch")


@_check
async def a_closed_store_opens_by_use(store: Store) -> None:
    """After close everything is there, and a lease that was held is good."""
    lease = await store.create("r", "g", _records(0, 1))
    await store.close()
    await store.append(lease, _records(1, 1))
    await store.close()
    await store.close()
    _same(await store.read("r"), _records(0, 2), "the records")
    await store.append(lease, _records(2, 1))
    await store.release(lease)


@_check
async def any_loop_and_thread_may_call(store: Store) -> None:
    """Runs written from event loops of several threads at once are all whole."""

    def work(name: str) -> None:
        asyncio.run(_write_run(store, name, 20))

    await asyncio.gather(*(asyncio.to_thread(work, f"t{number}") for number in range(4)))
    for number in range(4):
        _same(await store.read(f"t{number}"), _records(0, 20, f"t{number}"), f"the records of t{number}")


CHECKS: Final[Sequence[Check]] = tuple(_CHECKS)
"""All checks, in the order of this page."""


# ------------------------------------------------------------------------------------------------------- wording


def _records(first: int, count: int, mark: str = "") -> list[Record]:
    kinds: Sequence[RecordKind] = ("started", "done", "memo", "failed")
    return [Record(seq, kinds[seq % 4], f'{{"of":"{mark}","n":{seq}}}'.encode()) for seq in range(first, first + count)]


async def _write_run(store: Store, run_id: str, count: int) -> None:
    lease = await store.create(run_id, "g", _records(0, 1, run_id))
    for seq in range(1, count):
        await store.append(lease, _records(seq, 1, run_id))
    await store.append(lease, [], status="completed")
    await store.release(lease)


async def _ids(store: Store, *, graph: str | None = None) -> list[str]:
    return [run.run_id for run in await store.runs(graph=graph)]


def _held(lease: Lease | None) -> Lease:
    """The lease that there must be."""
    if lease is None:
        raise AssertionError("resume gave no lease of a run that is not completed")
    return lease


def _same(got: object, expected: object, what: str) -> None:
    if got != expected:
        raise AssertionError(f"{what}: expected {_short(expected)}, got {_short(got)}")


def _true(holds: object, what: str) -> None:
    if not holds:
        raise AssertionError(f"not so: {what}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 2000 else f"{text[:1000]} ... {text[-1000:]}"


async def _refused(call: Awaitable[object], kind: type[FlowAgentError]) -> FlowAgentError:
    try:
        outcome = await call
    except kind as error:
        return error
    raise AssertionError(f"expected {kind.__name__}, got {outcome!r}")
