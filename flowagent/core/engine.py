"""The shell around the machine: the one place where a run meets time, user code and the store.

It starts what the machine says may start, tells the machine what came of it, and has every record in the store
before anything that depends on it starts. All decisions are the machine's and the policies'.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from flowagent.core import calls, journal
from flowagent.core.attempts import Outcome, run_beside, run_inline, wait_again
from flowagent.core.events import Asked, Emitted, Event, RunEnded, RunStarted, TaskDone, TaskFailed, TaskStarted, Warned
from flowagent.core.facts import Failure, Question, Way
from flowagent.core.fields import Codec
from flowagent.core.loops import own_loop
from flowagent.core.machine import Machine, mapped_items
from flowagent.core.nodes import GateNode, MapNode
from flowagent.core.policies import Durability, Limits
from flowagent.core.position import export
from flowagent.core.questions import gate_question, once_question, once_update
from flowagent.core.records import Record, RecordKind, Snapshot, Status
from flowagent.core.scope import Task
from flowagent.core.topology import cycle_around
from flowagent.core.writes import NOTHING, Writes
from flowagent.errors import FlowAgentError, RoutingError, RunConflict, StateError, StoreError

if TYPE_CHECKING:
    from flowagent.stores.base import Lease, Store

_LIGHTEST_SNAPSHOT = 16_384
"""Below so many bytes of records, replaying them is cheaper than a snapshot."""

Listener = Callable[[Event], None]


class Engine:
    """Drives one run until it can go no further.

    Args:
        machine: the run's position.
        store: where its records go.
        lease: the right to append them.
        deps: what nodes get as `ctx.deps`.
        limits: how far this call may go.
        durability: what is stored when.
        listener: is told every event; one that raises harms nothing.
        own_loop: whether the loop is ours, so that sync nodes may run on it when nothing else could.
        keeps_questions: whether the store is one that somebody can answer questions in later.
        weight: the bytes of records since the last snapshot, and of that snapshot.
    """

    def __init__(
        self,
        machine: Machine,
        store: Store,
        lease: Lease,
        *,
        deps: Any = None,
        limits: Limits,
        durability: Durability = "step",
        listener: Listener | None = None,
        own_loop: bool = False,
        keeps_questions: bool = True,
        is_interrupted: Callable[[], bool] = lambda: False,
        weight: tuple[int, int] = (0, 0),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.machine = machine
        self.store = store
        self.lease = lease
        self.run_id = lease.run_id
        self.deps = deps
        self.limits = limits
        self.clock = clock
        self.is_interrupted = is_interrupted
        self.keeps_questions = keeps_questions
        self.executed = 0
        self.reason = ""
        self._durability: Durability = durability
        self._listener = listener
        self._own_loop = own_loop
        self._told = 0
        self._pending: list[Record] = []
        self._next = lease.next_seq
        self._since_snapshot, self._snapshot_bytes = weight
        self._flushing: asyncio.Future[None] | None = None
        self._flights: dict[Task, asyncio.Task[Outcome]] = {}
        self._called_off: set[Task] = set()
        self._landed: deque[tuple[Task, asyncio.Task[Outcome]]] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._cancel_asked = False
        self._stopped: Status | None = None
        self._most_steps = float("inf") if limits.steps is None else limits.steps
        self._deadline = None if limits.seconds is None else time.monotonic() + limits.seconds

    # -- the loop --------------------------------------------------------------------------------------------------

    async def drive(self, *, resumed: bool) -> Status:
        """Go on until the run is over, waits, has failed or is stopped; then let go of it.

        Returns:
            Where it stands.

        Raises:
            asyncio.CancelledError: the call was cancelled; the run is stored as cancelled.
            RunConflict: another owner took the run over.
            StoreError: the store cannot save; what was stored is resumable.
        """
        self.lease.on_cancel = self._wake_from_anywhere()
        self._tell(RunStarted, graph=self.machine.root.topology.name, resumed=resumed)
        try:
            status = await self._go_on()
        except BaseException as error:
            await self._abandon(error)
            raise
        await self._end(status)
        return status

    async def _go_on(self) -> Status:
        while True:
            before = self._next
            if self.machine.failing:
                self._note_unmerged()
                self._decide_stuck()
            await self.flush()
            if self._stopped is None:
                await self._start_what_may()
            if self._next != before or self.machine.stuck:
                continue  # something was noted: it has to be stored, and may have let more tasks start
            if not self._flights:
                return self._standing()
            await self._land()

    async def _start_what_may(self) -> None:
        machine = self.machine
        while (task := machine.next_ready()) is not None:
            if self._cancel_asked or self._at_limit(task) or (self._pending and self._waits_for_store(task)):
                return
            machine.take(task)
            place = task.place
            if task.closing:
                self._close(task)
            elif place.has_items and task.index is None:
                machine.open_items(task)
            elif place.runs_inline and self._own_loop and not self._flights and not machine.ready:
                # Nothing could run beside it and nothing must stop it, so it costs no task, no thread and no lock.
                self._run_inline(task)
                if not self._asks_router_next():
                    return
            elif place.child is not None:
                self._open(task)
            elif isinstance(place.node, GateNode):
                self._pass_gate(task)
            else:
                await self._launch(task)

    def _waits_for_store(self, task: Task) -> bool:
        """Whether a task calls user code, and so must not start before what it may follow from is stored.

        A router that is asked together with the node before it need not wait: one transaction stores both.
        """
        place = task.place
        if self._durability == "exit" or (place.is_router and place.runs_inline and self._own_loop):
            return False
        is_ours = task.closing or (place.has_items and task.index is None) or place.child is not None
        return not (is_ours or isinstance(place.node, GateNode))

    def _asks_router_next(self) -> bool:
        """Whether a router follows: it is asked at once, and its answer stored in the same transaction."""
        following = self.machine.next_ready()
        return following is not None and following.place.is_router

    def _run_inline(self, task: Task) -> None:
        """Run one task here and now."""
        if self._listener is not None:
            self._tell_of(TaskStarted, task)
        self._settle(run_inline(self, task, None if task.index is None else self._item_of(task)))

    async def _launch(self, task: Task, delay: float = 0.0) -> None:
        if task.place.node is not None and task.place.node.options.once and not await self._begin_once(task):
            return
        if self._listener is not None:
            self._tell_of(TaskStarted, task)
        self._fly(task, delay)

    def _fly(self, task: Task, delay: float) -> None:
        context = contextvars.copy_context()
        context.run(own_loop.set, False)  # a graph that a node runs shares this loop with whatever else is in flight
        if task.place.child is not None or isinstance(task.place.node, GateNode):
            work = wait_again(task, delay)
        else:
            work = run_beside(self, task, self._item_of(task), delay)
        flight = asyncio.get_running_loop().create_task(work, context=context)
        self._flights[task] = flight
        flight.add_done_callback(lambda landed: self._note_landing(task, landed))

    def _note_landing(self, task: Task, flight: asyncio.Task[Outcome]) -> None:
        self._landed.append((task, flight))
        self._ring()

    def _ring(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _wake_from_anywhere(self) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def ask() -> None:
            self._cancel_asked = True
            try:
                loop.call_soon_threadsafe(self._ring)
            except RuntimeError:
                pass  # the loop is closed: the call is over

        return ask

    async def _land(self) -> None:
        """Wait until something in flight has ended, and settle all that has."""
        if not self._landed and not self._cancel_asked:
            self._wake = asyncio.get_running_loop().create_future()
            left = None if self._deadline is None else self._deadline - time.monotonic()
            try:
                async with asyncio.timeout(left):
                    await self._wake
            except TimeoutError:
                await self._stop_at("limit", f"reached the limit of {self.limits.seconds:g} s")
            finally:
                self._wake = None
        if self._cancel_asked and self._stopped is None:
            await self._stop_at("cancelled", "somebody asked to cancel it")
        self._settle_landed()

    def _settle_landed(self) -> None:
        while self._landed:
            task, flight = self._landed.popleft()
            self._flights.pop(task, None)
            self._called_off.discard(task)
            if flight.cancelled():
                self._put_back(task)
            else:
                self._settle(flight.result())

    async def _stop_at(self, status: Status, reason: str) -> None:
        self._stopped, self.reason = status, reason
        await self._call_off()

    async def _call_off(self) -> None:
        """Cancel what is in flight and wait until it has stopped; what finished all the same is settled."""
        for task, flight in self._flights.items():
            self._called_off.add(task)
            flight.cancel()
        if self._flights:
            await asyncio.wait(list(self._flights.values()))
            await asyncio.sleep(0)  # the callbacks of what has landed run before this returns

    def is_calling_off(self, task: Task) -> bool:
        """Whether a task in flight is being cancelled by us."""
        return task in self._called_off

    def _put_back(self, task: Task) -> None:
        node = task.place.node
        if node is not None and node.options.once:
            self._ask_what_became(task, "was cancelled")
        elif task.id in self.machine.tasks:
            self.machine.put_back(task)

    # -- where it stands -------------------------------------------------------------------------------------------

    def _at_limit(self, task: Task) -> bool:
        if self.machine.steps < self._most_steps and self._deadline is None:
            return False
        steps = self.limits.steps
        if steps is not None and not task.closing and self.machine.would_count(task) and self.machine.steps >= steps:
            around = cycle_around(task.scope.topology, task.place.name)
            where = f" in the cycle of {', '.join(f'`{name}`' for name in around)}" if around else ""
            self._stopped, self.reason = "limit", f"reached the limit of {steps} steps{where}"
            return True
        if self._deadline is not None and time.monotonic() >= self._deadline and not task.closing:
            self._stopped, self.reason = "limit", f"reached the limit of {self.limits.seconds:g} s"
            return True
        return False

    def _standing(self) -> Status:
        if self._cancel_asked and self.machine.final is None:
            return "cancelled"
        if self.machine.final is not None:
            return "completed"
        if self._stopped is not None:
            return self._stopped
        if self.machine.failing:
            return "failed"
        assert self.machine.questions, "nothing runs, waits or has failed, and the run is not over; this is a bug in flowagent"
        return "waiting"

    # -- settling what happened ------------------------------------------------------------------------------------

    def _settle(self, outcome: Outcome) -> None:
        """Tell the machine and the journal what came of an attempt."""
        task = outcome.task
        if outcome.again:
            self.machine.put_back(task)
            return
        self.executed += 1
        if outcome.paused:
            return  # its question is recorded already
        if outcome.error is not None:
            self._settle_failure(task, outcome.error, outcome.seconds)
            return
        try:
            self._settle_return(task, outcome)
        except (StateError, RoutingError) as error:
            self._settle_failure(task, error, outcome.seconds)

    def _settle_return(self, task: Task, outcome: Outcome) -> None:
        if task.index is not None and task.place.result_codec is not None:
            value, data = calls.item_result(task, outcome.returned)
            self.note("item", journal.item(task, data, self.clock(), outcome.seconds))
            self.machine.finish_item(task, value, data)
            if self._listener is not None:
                self._tell_of(TaskDone, task, update={}, to=(), seconds=outcome.seconds)
            return
        if task.place.is_router:
            self._finish(task, NOTHING, calls.router_result(task, outcome.returned), outcome.seconds)
            return
        key = f"{self.run_id}/{task.id}"
        writes, ways = calls.node_result(task, outcome.returned, key, outcome.view)
        self._finish(task, writes, ways, outcome.seconds)

    def _finish(self, task: Task, writes: Writes, ways: Sequence[Way], seconds: float) -> None:
        self.note("done", journal.done(task, writes, ways, self.clock(), seconds))
        if self._listener is not None:
            self._tell_done(task, writes, ways, seconds)
            self._warn_of_conflicts(task, writes)
        self.machine.finish(task, writes, ways)

    def _settle_failure(self, task: Task, error: BaseException, seconds: float) -> None:
        node = task.place.node
        options = None if node is None else node.options
        failure = self._failure(task, error)
        refused = isinstance(error, (StateError, RoutingError))
        retry = None if options is None else options.retry
        again = retry is not None and not refused and retry.allows(task.attempt - task.tried, error)
        if options is not None and options.once and not again:
            self.note("failed", journal.failed(task, [failure], final=False, at=self.clock(), seconds=seconds))
            self._tell_failed(task, (failure,), None)
            self._ask_what_became(task, f"failed ({failure.kind}: {failure.message})")
            return
        self.note("failed", journal.failed(task, [failure], final=not again, at=self.clock(), seconds=seconds))
        if again and retry is not None:
            delay = retry.delay(task.attempt - task.tried)
            self._tell_failed(task, (failure,), delay)
            task.attempt += 1
            self._fly(task, delay)
            return
        self._tell_failed(task, (failure,), None)
        self._stand_failed(task, (failure,))

    def _stand_failed(self, task: Task, failures: tuple[Failure, ...]) -> None:
        self.machine.fail(task, failures)
        if self.machine.on_failure == "cancel" and self.machine.is_halted():
            for other, flight in self._flights.items():
                self._called_off.add(other)
                flight.cancel()

    def _failure(self, task: Task, error: BaseException) -> Failure:
        return Failure(
            graph=task.scope.topology.name,
            node=task.place.name,
            task=task.id,
            attempt=task.attempt,
            kind=type(error).__name__,
            message=f"{error}{_while_handling(task)}",
            cause=error,
        )

    def _note_unmerged(self) -> None:
        while self.machine.unmerged:
            task = self.machine.unmerged.pop()
            self.note("failed", journal.failed(task, task.failures, final=True, at=self.clock(), seconds=0.0))
            self._tell_failed(task, task.failures, None)

    def _decide_stuck(self) -> None:
        """Containers that catch failures: try again inside if their `retry` allows, else they fail."""
        while self.machine.stuck:
            task = self.machine.stuck[0]
            failures = self.machine.failures_inside(task)
            node = task.place.node
            retry = None if node is None or task.index is not None else node.options.retry
            cause = failures[0].cause or FlowAgentError(failures[0].message)
            if retry is not None and retry.allows(task.attempt - task.tried, cause):
                self.note("retried", journal.plain(self.clock(), inside=[task.id]))
                self.machine.go_on_inside(task)
                continue
            self.note("failed", journal.failed(task, failures, final=True, at=self.clock(), seconds=0.0))
            self._tell_failed(task, failures, None)
            self.machine.fail(task, failures)

    # -- containers and gates --------------------------------------------------------------------------------------

    def _open(self, task: Task) -> None:
        child = task.place.child
        assert child is not None, "only graphs are opened; this is a bug in flowagent"
        try:
            given = calls.child_input(task, self._item_of(task))
            values, data = child.schema.start(given, key=f"{self.run_id}/{task.id}/")
        except Exception as error:  # noqa: BLE001  # input= may be a user's function
            self._settle_failure(task, error, 0.0)
            return
        self.note("opened", journal.opened(task, data, self.clock()))
        self._tell_of(TaskStarted, task)
        self.machine.open(task, values)

    def _close(self, task: Task) -> None:
        key = f"{self.run_id}/{task.id}"
        try:
            if task.index is not None:
                self._settle_return(task, Outcome(task, 0.0, calls.mapped_output(task)))
                return
            writes = calls.container_update(task, key)
        except Exception as error:  # noqa: BLE001  # output= may be a user's function
            self._settle_failure(task, error, 0.0)
            return
        self._finish(task, writes, task.place.ways, 0.0)

    def _pass_gate(self, task: Task) -> None:
        known = (task.answers or {}).get("")
        node = task.place.node
        assert isinstance(node, GateNode), "only gates are passed; this is a bug in flowagent"
        if known is None:
            try:
                question = gate_question(task, node)
            except Exception as error:  # noqa: BLE001  # a format string may fail in any way
                self._settle_failure(task, error, 0.0)
                return
            self.note("asked", journal.asked(question, self.clock()))
            self.machine.ask(task, question)
            self._tell_of(Asked, task, question=question)
            return
        value = Codec(node.schema, {}).decode(known)
        try:
            writes, ways = calls.gate_result(task, value, f"{self.run_id}/{task.id}")
        except (StateError, RoutingError) as error:
            self._settle_failure(task, error, 0.0)
            return
        self._finish(task, writes, ways, 0.0)

    def _item_of(self, task: Task) -> Any:
        if task.index is None:
            return None
        if task.item is not None:
            return task.item.value
        node = task.place.node
        assert isinstance(node, MapNode), "only maps have items in the state; this is a bug in flowagent"
        container = task.container
        assert container is not None, "an item has a container; this is a bug in flowagent"
        return mapped_items(task.values[node.over])[task.index]

    # -- once ------------------------------------------------------------------------------------------------------

    async def _begin_once(self, task: Task) -> bool:
        """Whether a `once` task may be called: never when it was before and nobody knows what became of it."""
        known = (task.answers or {}).get("once")
        if known is not None:
            self._settle_once(task, known)
            return False
        if task.attempted:
            self._ask_what_became(task, "was interrupted")
            return False
        self.note("attempted", journal.plain(self.clock(), task=task.id))
        task.attempted = True
        await self.flush(at_once=True)
        return True

    def _settle_once(self, task: Task, known: str) -> None:
        try:
            writes, ways = once_update(task, known, f"{self.run_id}/{task.id}")
        except (StateError, RoutingError) as error:
            self._settle_failure(task, error, 0.0)
            return
        if writes is None:
            error = FlowAgentError("it was aborted by the answer to what became of its side effect")
            failure = self._failure(task, error)
            self.note("failed", journal.failed(task, [failure], final=True, at=self.clock(), seconds=0.0))
            self._tell_failed(task, (failure,), None)
            self._stand_failed(task, (failure,))
            return
        self._finish(task, writes, ways, 0.0)

    def _ask_what_became(self, task: Task, what: str) -> None:
        question = once_question(task, what)
        self.note("asked", journal.asked(question, self.clock()))
        self.machine.ask(task, question)
        self._tell_of(Asked, task, question=question)

    # -- the context's port ------------------------------------------------------------------------------------------

    async def remember(self, task: Task, name: str, data: dict[str, Any]) -> None:
        """Record a memo and have it stored before going on."""
        self.note("memo", journal.plain(self.clock(), task=task.id, name=name, data=data))
        self.machine.memo(task, name, data)
        await self.flush()

    async def note_question(self, task: Task, question: Question) -> None:
        """Record that a node asks; its attempt counts as waiting from here on."""
        self.note("asked", journal.asked(question, self.clock()))
        self.machine.ask(task, question)
        self._tell_of(Asked, task, question=question)
        await self.flush()

    # -- records -----------------------------------------------------------------------------------------------------

    def note(self, kind: RecordKind, data: bytes) -> None:
        """Add a record to the next commit."""
        self._pending.append(Record(self._next, kind, data))
        self._next += 1
        self._since_snapshot += len(data)

    async def flush(self, *, status: Status | None = None, at_once: bool = False) -> None:
        """Have all records in the store, if this run's durability asks for it now."""
        while self._flushing is not None:
            await self._flushing
        if not (self._pending or status) or (self._durability == "exit" and not (status or at_once)):
            return
        durable = self._durability != "fast" or at_once
        snapshot = self._snapshot_if_due()
        batch, self._pending = self._pending, []
        append = self.store.append(self.lease, batch, status=status, snapshot=snapshot, durable=durable)
        try:
            if self.lease.blocking:
                await append
            else:
                await self._in_order(append)
        except (StoreError, RunConflict):
            self._pending = batch + self._pending
            raise

    async def _in_order(self, append: Coroutine[Any, Any, None]) -> None:
        """Commit while others may note more records; they wait until this is stored, even if we are cancelled."""
        loop = asyncio.get_running_loop()
        self._flushing = loop.create_future()
        task = loop.create_task(append)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait([task])
            task.result()
            raise
        finally:
            self._flushing.set_result(None)
            self._flushing = None

    def _snapshot_if_due(self) -> Snapshot | None:
        if self._since_snapshot < max(_LIGHTEST_SNAPSHOT, self._snapshot_bytes):
            return None
        data = to_json(export(self.machine))
        self._since_snapshot, self._snapshot_bytes = 0, len(data)
        return Snapshot(self._next - 1, data)

    async def _end(self, status: Status) -> None:
        self._tell(RunEnded, status=status)
        self.note("ended", journal.plain(self.clock(), status=status, reason=self.reason))
        await self.flush(status=status)
        await self.store.release(self.lease)

    async def _abandon(self, error: BaseException) -> None:
        """The call is being torn down: stop what is in flight, store what is known, and let go."""
        if isinstance(error, asyncio.CancelledError):
            await self._call_off()
            self._settle_landed()
            status: Status | None = None if self.is_interrupted() else "cancelled"
            self.reason = "the call was cancelled"
            if self.machine.final is not None:
                status = "completed"
            if status is not None:
                await self._end(status)
                return
        elif not isinstance(error, (RunConflict, StoreError)):
            await self._call_off()
        else:
            self._pending.clear()
            await self._call_off()
        try:
            await self.flush()
        except (RunConflict, StoreError):
            pass  # the error that brought us here is the one to tell
        await self.store.release(self.lease)

    # -- telling -----------------------------------------------------------------------------------------------------

    def _tell(self, kind: Callable[..., Event], **facts: Any) -> None:
        if self._listener is None:
            return
        event = kind(run_id=self.run_id, number=self._told, time=self.clock(), **facts)
        self._told += 1
        try:
            self._listener(event)
        except Exception:  # noqa: BLE001, S110  # a watcher that throws harms nothing
            pass

    def _tell_of(self, kind: Callable[..., Event], task: Task, **facts: Any) -> None:
        if self._listener is not None:
            self._tell(
                kind, task_id=task.id, node=task.place.name, path=path_of(task), attempt=task.attempt, **facts
            )

    def _tell_done(self, task: Task, writes: Writes, ways: Sequence[Way], seconds: float) -> None:
        places = task.scope.topology.places
        update = {name: write.values[0] if len(write.values) == 1 else write.values for name, write in writes.items()}
        to = tuple(places[way.head].name for way in ways)
        self._tell_of(TaskDone, task, update=update, to=to, seconds=seconds)

    def _warn_of_conflicts(self, task: Task, writes: Writes) -> None:
        """Tell of branches that will not agree before more is spent on them."""
        for name, other in self.machine.written_beside(task, writes).items():
            self.tell_warning(
                task,
                f"`{task.id}` and `{other}`, which run beside one another, set field `{name}` to different values: "
                "where they meet it will be a conflict; declare a reducer, or write different fields",
            )

    def _tell_failed(self, task: Task, failures: tuple[Failure, ...], retry_in: float | None) -> None:
        self._tell_of(TaskFailed, task, failures=failures, retry_in=retry_in)

    def tell_emitted(self, task: Task, name: str, data: Any) -> None:
        """Pass on what a node emitted."""
        self._tell_of(Emitted, task, name=name, data=data)

    def tell_warning(self, task: Task, text: str) -> None:
        """Say that something is odd."""
        self._tell_of(Warned, task, text=text)


def _while_handling(task: Task) -> str:
    """What a handler that failed was called for: whoever mends it needs to know both."""
    if not task.caught:
        return ""
    return f" (while handling {'; '.join(f'`{one.task}`: {one.kind}: {one.message}' for one in task.caught)})"


def path_of(task: Task) -> tuple[str, ...]:
    """The names of the nodes that hold a task's graph, outermost first."""
    path: list[str] = []
    owner = task.scope.owner
    while owner is not None:
        path.append(owner.place.name)
        owner = owner.scope.owner
    return tuple(reversed(path))


