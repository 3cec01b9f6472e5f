"""The shell around the machine: the one place where a run meets time, user code and the store.

It starts what the machine says may start, has what came of it settled, and sees that every record is in the store
before anything that depends on it starts. All decisions are the machine's and the policies'.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flowagent.core import journal, reasons
from flowagent.core.attempts import Outcome, run_beside, run_inline, wait_again
from flowagent.core.events import RunEnded, RunStarted
from flowagent.core.facts import Question
from flowagent.core.flights import Flights
from flowagent.core.foreground import Foreground, Waiting
from flowagent.core.lane import Lane
from flowagent.core.listening import NOTHING_CARRIED, Hears
from flowagent.core.loops import inline_here
from flowagent.core.machine import Machine
from flowagent.core.nodes import GateNode
from flowagent.core.policies import Durability, Limits
from flowagent.core.purse import Purse
from flowagent.core.recorder import Recorder
from flowagent.core.records import Status
from flowagent.core.scope import Task
from flowagent.core.settler import Settler, item_of
from flowagent.core.teller import Teller, path_of
from flowagent.errors import RunConflict, StoreError

if TYPE_CHECKING:
    from flowagent.stores.base import Lease, Store


class Engine:
    """Drives one run until it can go no further.

    Args:
        machine: the run's position.
        store: where its records go.
        lease: the right to append them.
        deps: what nodes get as `ctx.deps`.
        limits: how far this call may go.
        durability: what is stored when.
        listeners: are told every event; none of them raises.
        carried: what the observers of the call that started the run wanted kept, if this one goes on with it.
        own_loop: whether the loop is ours, so that sync nodes may run on it when nothing else could.
        keeps_questions: whether the store is one that somebody can answer questions in later.
        is_interrupted: whether the caller went away (Ctrl-C, a stream that was left), which is no cancellation.
        weight: the bytes of records since the last snapshot, and of that snapshot.
        clock: the time of day, in seconds since 1970.
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
        listeners: Sequence[Hears] = (),
        carried: Mapping[str, str] = NOTHING_CARRIED,
        own_loop: bool = False,
        keeps_questions: bool = True,
        is_interrupted: Callable[[], bool] = lambda: False,
        weight: tuple[int, int] = (0, 0),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.machine = machine
        self.lease = lease
        self.run_id = lease.run_id
        self.deps = deps
        self.limits = limits
        self.clock = clock
        self.is_interrupted = is_interrupted
        self.inline = inline_here()
        self.keeps_questions = keeps_questions
        self.keeps_secrets = bool(getattr(store, "keeps_secrets", False))
        self.has_executed = False
        self.reason = ""
        self.teller = Teller(self.run_id, listeners, clock)
        self._carried = carried
        self._recorder = Recorder(store, lease, machine, durability, weight)
        self.purse = Purse(machine, limits)
        self._settler = Settler(self.run_id, machine, self._recorder, self.teller, self.purse, clock)
        self._lane = Lane(self, machine, self._settler, self._recorder, own_loop=own_loop)
        self._own_loop = own_loop
        self._flights: Flights[Outcome] = Flights()
        self._foreground = Foreground()
        self._cancel_asked = False
        self._unstored: RunConflict | StoreError | None = None
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
        self._foreground.enter()
        self._tell_start(resumed=resumed)
        try:
            status = await self._go_on()
        except BaseException as error:
            await self._abandon(error)
            raise
        await self._end(status)
        return status

    def _tell_start(self, *, resumed: bool) -> None:
        self.teller.tell(RunStarted, graph=self.machine.root.topology.name, resumed=resumed, carried=self._carried)
        if self.teller.is_heard and resumed:
            inside = [task for task in self.machine.tasks.values() if task.child is not None and not task.closing]
            for task in sorted(inside, key=lambda task: len(path_of(task))):  # outermost first
                self._settler.tell_opened(task)

    async def _go_on(self) -> Status:
        recorder = self._recorder
        while True:
            before = recorder.noted
            if self.machine.failing:
                self._look_at_failures()
            await recorder.flush()
            if self._stopped is None:
                await self._start_what_may()
            if recorder.noted != before or self.machine.stuck:
                continue  # something was noted: it has to be stored, and may have let more tasks start
            if not self._flights:
                return self._standing()
            await self._land()

    async def _start_what_may(self) -> None:
        machine = self.machine
        while (task := machine.next_ready()) is not None:
            place = task.place
            is_alone = not self._flights and len(machine.ready) == 1
            if not self.may_start(task):
                return
            if is_alone and self._lane.takes(place):
                await self._lane.run(task)
                return
            machine.take(task)
            if task.closing:
                self.after(task, self._settler.close(task))
            elif place.has_items and task.index is None:
                machine.open_items(task)
            elif is_alone and place.runs_inline and self._own_loop:
                # Nothing could run beside it and nothing must stop it, so it costs no task, no thread and no lock.
                self._run_inline(task)
                if not self._asks_router_next():
                    return
            elif place.child is not None:
                self.after(task, self._settler.open(task))
            elif isinstance(place.node, GateNode):
                self.after(task, self._settler.pass_gate(task))
            else:
                await self._launch(task)

    def may_start(self, task: Task) -> bool:
        """Whether nobody wants to stop, there are steps and seconds left, and what it may follow from is stored."""
        if self.machine.steps >= self._most_steps or self._deadline is not None:
            self._look_at_limits(task)
        if self._cancel_asked or self._stopped is not None:
            return False
        return not (self._recorder.pending and self._recorder.is_ahead and self._calls_user(task))

    def _calls_user(self, task: Task) -> bool:
        """Whether a task calls user code, and so must not start before what it may follow from is stored.

        A router that is asked together with the node before it need not wait: one transaction stores both.
        """
        place = task.place
        if place.is_router and place.runs_inline and self._own_loop:
            return False
        is_ours = task.closing or (place.has_items and task.index is None) or place.child is not None
        return not (is_ours or isinstance(place.node, GateNode))

    def _asks_router_next(self) -> bool:
        """Whether a router follows: it is asked at once, and its answer stored in the same transaction."""
        ready = self.machine.ready
        return bool(ready) and ready[0].place.is_router

    def _run_inline(self, task: Task) -> None:
        self._settle(run_inline(self, task, item_of(task)))

    async def _launch(self, task: Task) -> None:
        node = task.place.node
        if node is not None and node.options.once:
            if not self._settler.begin_once(task):
                return
            await self._recorder.flush(at_once=True)
        self.fly(task, 0.0)

    async def wait_here(self, waiting: Waiting, context: contextvars.Context, outcome: Outcome) -> bool:
        """Await the rest of a call that goes on alone; whether it ended, and was not called off and put back.

        What came before it is stored meanwhile, so that it is safe however long that takes.

        Raises:
            asyncio.CancelledError: whoever called the run was cancelled, and so the call with it.
        """
        loop, recorder, foreground, task = asyncio.get_running_loop(), self._recorder, self._foreground, outcome.task
        saving = loop.create_task(recorder.flush()) if recorder.pending and recorder.is_ahead else None
        left = self._seconds_left()
        timer = None if left is None else loop.call_later(left, self._run_out)
        began = time.perf_counter()
        outcome.returned, outcome.error = await foreground.rest(waiting, context)
        outcome.seconds = time.perf_counter() - began
        if timer is not None:
            timer.cancel()
        leaving = foreground.leaving
        try:
            if saving is not None:
                await saving
        except asyncio.CancelledError as error:
            leaving = error  # what the call gave counts all the same
        if foreground.is_cut_off:
            self._put_back(task, "was cancelled")
        self._stop_if_asked()
        if leaving is not None:
            if not foreground.is_cut_off:
                self._settle(outcome)
            raise leaving
        return not foreground.is_cut_off

    def _run_out(self) -> None:
        """Call off the call that is awaited: the seconds are used up by the loop's clock, which may be a coarse one."""
        self._deadline = time.monotonic()
        self._foreground.call_off()

    def _stop_if_asked(self) -> None:
        """Nothing starts any more when somebody has asked to cancel, or the seconds are used up."""
        if self._stopped is None and self._cancel_asked:
            self._stopped, self.reason = "cancelled", reasons.CANCELLED
        elif self._stopped is None and self._deadline is not None and time.monotonic() >= self._deadline:
            self._stopped, self.reason = "limit", reasons.seconds_used_up(self.limits)

    # -- what is in flight -----------------------------------------------------------------------------------------

    def fly(self, task: Task, delay: float) -> None:
        """Attempt a task (again) beside the loop, after a wait in seconds."""
        is_ours = task.place.function is None
        self._flights.start(task, wait_again(task, delay) if is_ours else run_beside(self, task, item_of(task), delay))

    def _ring(self) -> None:
        """Somebody asks to cancel: see that the engine, or the call that it awaits, notices."""
        self._flights.wake()
        self._foreground.call_off()

    def _wake_from_anywhere(self) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def ask() -> None:
            self._cancel_asked = True
            try:
                loop.call_soon_threadsafe(self._ring)
            except RuntimeError:  # pragma: no cover  # another thread asks in the moment in which the call ends
                pass  # the loop is closed: the call is over

        return ask

    async def _land(self) -> None:
        """Wait until something in flight has ended, and settle all that has."""
        try:
            if not self._cancel_asked:
                await self._flights.landing(self._seconds_left())
        except TimeoutError:
            await self._stop_at("limit", reasons.seconds_used_up(self.limits))
        if self._cancel_asked:  # even if it was stopping already: what is in flight may take as long as it likes then
            await self._stop_at("cancelled", reasons.CANCELLED)
        self._settle_landed()

    def _seconds_left(self) -> float | None:
        return None if self._deadline is None else self._deadline - time.monotonic()

    def _settle_landed(self) -> None:
        for task, flight in self._flights.landed():
            if flight.cancelled():
                self._put_back(task, "was cancelled")
            elif flight.result().again:
                self.machine.put_back(task)
            else:
                self._settle(flight.result())

    def _settle(self, outcome: Outcome) -> None:
        if self._unstored is not None:
            raise self._unstored
        self.has_executed = True
        task = outcome.task
        account = task.account
        if outcome.stopped and not outcome.paused:
            self._stop_short(task, outcome.stopped)
        else:
            self.after(task, self._settler.settle(outcome))
        if account is not None:
            self.purse.close(task, account)

    def _stop_short(self, task: Task, why: str) -> None:
        """The limits left no room for what an attempt wanted to spend: it may start anew when they are higher."""
        if self._stopped is None:
            self._stopped, self.reason = "limit", reasons.no_room(why, task)
        self._put_back(task, "was stopped by a limit")

    def after(self, task: Task, delay: float | None) -> None:
        """A task was settled; `delay` is the wait before its next attempt, if there is one."""
        if delay is None:
            return
        if self._stopped is None:
            self.fly(task, delay)
        else:
            self.machine.put_back(task)  # nothing starts any more: whoever goes on makes the next attempt

    def _look_at_failures(self) -> None:
        self._settler.note_unmerged()
        self._settler.decide_stuck()
        if self.machine.on_failure == "cancel" and self.machine.is_halted():
            self._flights.call_off(again=False)  # what takes its time to stop is not interrupted in that

    async def _stop_at(self, status: Status, reason: str) -> None:
        self._stopped, self.reason = status, reason
        await self._call_off()

    async def _call_off(self) -> None:
        """Cancel what is in flight and wait until it has stopped; what finished all the same is settled."""
        self._flights.call_off(again=True)
        await self._flights.all_landed()

    def is_calling_off(self, task: Task) -> bool:
        """Whether a task in flight is being cancelled by us."""
        return self._flights.is_calling_off(task)

    def _put_back(self, task: Task, why: str) -> None:
        node = task.place.node
        account = task.account
        if node is not None and node.options.once:
            self._settler.ask_what_became(task, why)
        elif task.id in self.machine.tasks:
            self._settler.note_spent(task)
            self.machine.put_back(task)
        if account is not None:
            self.purse.close(task, account)

    # -- where it stands -------------------------------------------------------------------------------------------

    def _look_at_limits(self, task: Task) -> None:
        """Stop before a task for which there are no steps or no seconds left."""
        if task.closing:
            return
        if self.machine.steps >= self._most_steps and self.machine.would_count(task):
            self._stopped, self.reason = "limit", reasons.steps_used_up(self.limits, task)
        elif self._deadline is not None and time.monotonic() >= self._deadline:
            self._stopped, self.reason = "limit", reasons.seconds_used_up(self.limits)

    def _standing(self) -> Status:
        if self.machine.final is not None:
            return "completed"
        if self._cancel_asked:
            return "cancelled"
        if self._stopped is not None:
            return self._stopped
        if self.machine.failing:
            return "failed"
        assert self.machine.questions, (
            "nothing runs, waits or has failed, and the run is not over; this is a bug in flowagent"
        )
        return "waiting"

    # -- the context's port ------------------------------------------------------------------------------------------

    async def remember(self, task: Task, name: str, data: dict[str, Any]) -> None:
        """Record a memo and have it stored before going on."""
        self._settler.remember(task, name, data)
        await self._flush_for_node()

    async def begin_once(self, task: Task, name: str, data: dict[str, Any]) -> None:
        """Record that a step begins that must not be done twice, and have it stored at every durability."""
        self._settler.begin_step(task, name, data)
        await self._flush_for_node(at_once=True)

    async def ask(self, task: Task, question: Question) -> None:
        """Record that a node asks; its attempt counts as waiting from here on."""
        self._settler.ask(task, question)
        await self._flush_for_node()

    async def _flush_for_node(self, *, at_once: bool = False) -> None:
        """Store what a node records in its middle; that it cannot be stored is no failure of the node."""
        try:
            await self._recorder.flush(at_once=at_once)
        except (RunConflict, StoreError) as error:
            self._unstored = error
            raise

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _end(self, status: Status) -> None:
        try:
            await self._store_end(status)
        finally:
            await self._recorder.let_go()  # even when its end cannot be stored, or nobody could go on with the run

    async def _store_end(self, status: Status) -> None:
        self.teller.tell(RunEnded, status=status)
        self._recorder.note("ended", journal.plain(self.clock(), status=status, reason=self.reason))
        await self._recorder.flush(status=status)

    async def _abandon(self, error: BaseException) -> None:
        """The call is being torn down: stop what is in flight, store what is known, and let go, whatever happens."""
        self._stopped = self._stopped or "interrupted"
        try:
            await self._call_off()
            if isinstance(error, (RunConflict, StoreError)):
                self._recorder.forget()
            else:
                self._settle_landed()
            if isinstance(error, asyncio.CancelledError) and (status := self._status_when_cancelled()) is not None:
                await self._store_end(status)
            else:
                await self._recorder.flush(at_once=True)
        except (RunConflict, StoreError):
            pass  # the error that brought us here is the one to tell
        finally:
            await self._recorder.let_go()

    def _status_when_cancelled(self) -> Status | None:
        """None when the caller only went away: then the run is left as a killed process would leave it."""
        self.reason = "the call was cancelled"
        if self.machine.final is not None:
            return "completed"
        return None if self.is_interrupted() else "cancelled"
