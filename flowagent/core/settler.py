"""Settles what happened: tells the machine, the journal and the watcher, in one place and in the same words.

Every method that may end in a failure returns the wait before the next attempt in seconds, or None if there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel

from flowagent.core import calls, journal
from flowagent.core.attempts import Outcome
from flowagent.core.containers import mapped_items
from flowagent.core.events import Asked, TaskStarted
from flowagent.core.facts import Failure, Question, Way
from flowagent.core.fields import text_of
from flowagent.core.machine import Machine
from flowagent.core.memos import SPENT
from flowagent.core.nodes import GateNode, MapNode
from flowagent.core.purse import Purse
from flowagent.core.questions import gate_codec, gate_question, once_question, once_update
from flowagent.core.recorder import Recorder
from flowagent.core.scope import Task
from flowagent.core.teller import Teller
from flowagent.core.usage import Usage
from flowagent.core.writes import NOTHING, Writes
from flowagent.errors import FlowAgentError, RoutingError, StateError


class Settler:
    """Decides nothing about order: only what a return value, an error or an answer means for its task."""

    def __init__(
        self,
        run_id: str,
        machine: Machine,
        recorder: Recorder,
        teller: Teller,
        purse: Purse,
        clock: Callable[[], float],
    ) -> None:
        self._run_id = run_id
        self._machine = machine
        self._recorder = recorder
        self._teller = teller
        self._purse = purse
        self._clock = clock

    # -- attempts --------------------------------------------------------------------------------------------------

    def settle(self, outcome: Outcome) -> float | None:
        """An attempt has ended."""
        task = outcome.task
        if outcome.paused:
            self.note_spent(task)  # its question is recorded already
            return None
        if outcome.error is not None:
            return self.fail(task, outcome.error, outcome.seconds)
        return self.take(task, outcome.returned, outcome.view, outcome.seconds)

    def take(self, task: Task, returned: Any, view: BaseModel | None, seconds: float) -> float | None:
        """A function has returned."""
        place = task.place
        try:
            if place.is_router:
                writes, ways = NOTHING, calls.router_result(task, returned)
            elif place.result_codec is None or task.index is None:
                writes, ways = calls.node_result(task, returned, f"{self._run_id}/{task.id}", view)
            else:
                self._finish_item(task, returned, seconds)
                return None
            self._finish(task, writes, ways, seconds)
        except (StateError, RoutingError) as error:
            return self.fail(task, error, seconds)
        return None

    def _finish(self, task: Task, writes: Writes, ways: Sequence[Way], seconds: float) -> None:
        usage = None if task.account is None else self._purse.record(task)
        self._recorder.note_done(task, writes, ways, self._clock(), seconds, usage)
        if self._teller.is_heard:
            self._teller.done(task, writes, ways, seconds)
            self._warn_of_conflicts(task, writes)
        self._machine.finish(task, writes, ways)

    def _finish_item(self, task: Task, returned: Any, seconds: float) -> None:
        value, data = calls.item_result(task, returned)
        usage = None if task.account is None else self._purse.record(task)
        self._recorder.note("item", journal.item(task, data, self._clock(), seconds, usage))
        self._machine.finish_item(task, value, data)
        self._teller.item_done(task, seconds)

    def _warn_of_conflicts(self, task: Task, writes: Writes) -> None:
        """Tell of branches that will not agree before more is spent on them."""
        for name, other in self._machine.written_beside(task, writes).items():
            self._teller.warning(
                task,
                f"`{task.id}` and `{other}`, which run beside one another, set field `{name}` to different values: "
                "where they meet it will be a conflict; declare a reducer, or write different fields",
            )

    def _key(self, task: Task) -> str:
        return f"{self._run_id}/{task.id}"

    # -- failures --------------------------------------------------------------------------------------------------

    def fail(self, task: Task, error: BaseException, seconds: float = 0.0) -> float | None:
        """An attempt failed: it is repeated, asked about, or its task fails."""
        node = task.place.node
        retry = None if node is None else node.options.retry
        is_refused = isinstance(error, (StateError, RoutingError))  # and would be refused again
        again = retry is not None and not is_refused and retry.allows(task.attempt - task.tried, error)
        is_once = node is not None and node.options.once
        failure = _failure(task, error)
        self._note_failed(task, (failure,), final=not (again or is_once), seconds=seconds)
        if again and retry is not None:
            delay = retry.delay(task.attempt - task.tried)
            self._teller.failed(task, (failure,), delay)
            task.attempt += 1
            return delay
        self._teller.failed(task, (failure,))
        if is_once:
            self.ask_what_became(task, f"failed ({failure.kind}: {failure.message})")
        else:
            self._machine.fail(task, (failure,))
        return None

    def _note_failed(self, task: Task, failures: Sequence[Failure], *, final: bool, seconds: float = 0.0) -> None:
        usage = self._purse.record(task)
        data = journal.failed(task, failures, final=final, at=self._clock(), seconds=seconds, usage=usage)
        self._recorder.note("failed", data)

    def note_unmerged(self) -> None:
        """Record the merges that failed, for readers; the machine knows."""
        while self._machine.unmerged:
            task = self._machine.unmerged.pop()
            self._note_failed(task, task.failures, final=True)
            self._teller.failed(task, task.failures)

    def decide_stuck(self) -> None:
        """Containers that catch failures: try again inside if their `retry` allows it, else they fail."""
        while self._machine.stuck:
            task = self._machine.stuck[0]
            failures = self._machine.failures_inside(task)
            node = task.place.node
            retry = None if node is None or task.index is not None else node.options.retry
            cause = failures[0].cause or FlowAgentError(failures[0].message)
            if retry is not None and retry.allows(task.attempt - task.tried, cause):
                self._recorder.note("retried", journal.plain(self._clock(), inside=[task.id]))
                self._machine.go_on_inside(task)
                continue
            self._note_failed(task, failures, final=True)
            self._teller.failed(task, failures)
            self._machine.fail(task, failures)

    # -- containers and gates ----------------------------------------------------------------------------------------

    def open(self, task: Task) -> float | None:
        """A nested or mapped graph begins."""
        child = task.place.child
        assert child is not None, "only graphs are opened; this is a bug in flowagent"
        try:
            given = calls.child_input(task, item_of(task))
            values, data = child.schema.start(given, key=f"{self._key(task)}/")
        except Exception as error:  # noqa: BLE001  # input= may be a user's function
            return self.fail(task, error)
        self._recorder.note("opened", journal.opened(task, data, self._clock()))
        self.tell_opened(task)
        self._machine.open(task, values)
        return None

    def tell_opened(self, task: Task) -> None:
        """Tell that a nested or mapped graph begins or, when a run is resumed, goes on."""
        child = task.place.child
        assert child is not None, "only graphs are opened; this is a bug in flowagent"
        self._teller.of(TaskStarted, task, opens=child.name, is_agent=child.is_agent)

    def close(self, task: Task) -> float | None:
        """All that a map or nested graph holds is over."""
        try:
            if task.index is not None:
                self._finish_item(task, calls.mapped_output(task), 0.0)
                return None
            writes = calls.container_update(task, self._key(task))
        except Exception as error:  # noqa: BLE001  # output= may be a user's function
            return self.fail(task, error)
        self._finish(task, writes, task.place.ways, 0.0)
        return None

    def pass_gate(self, task: Task) -> float | None:
        """A gate asks, or passes on the answer."""
        node = task.place.node
        assert isinstance(node, GateNode), "only gates are passed; this is a bug in flowagent"
        known = (task.answers or {}).get("")
        try:
            if known is None:
                self.ask(task, gate_question(task, node))
                return None
            writes, ways = calls.gate_result(task, gate_codec(task, node).decode(known), self._key(task))
        except Exception as error:  # noqa: BLE001  # the text is a user's format string, the field has validators
            return self.fail(task, error)
        self._finish(task, writes, ways, 0.0)
        return None

    def ask(self, task: Task, question: Question) -> None:
        """A task waits for an answer."""
        self._recorder.note("asked", journal.asked(question, self._clock(), self._purse.record(task)))
        self._machine.ask(task, question)
        self._teller.of(Asked, task, question=question)

    def remember(self, task: Task, name: str, data: dict[str, Any]) -> None:
        """Something was done through `ctx.step`, or a wake time was set."""
        self._note_memo(task, name, data, self._purse.record(task))

    def note_spent(self, task: Task) -> None:
        """Record what an attempt spent of which no other record tells, as it was put back or waits."""
        usage = self._purse.record(task)
        if usage is not None:
            self._note_memo(task, SPENT, None, usage)

    def _note_memo(self, task: Task, name: str, data: Any, usage: Usage | None) -> None:
        self._recorder.note("memo", journal.memo(task, name, data, self._clock(), usage))
        self._machine.memo(task, name, data)

    # -- once ----------------------------------------------------------------------------------------------------------

    def begin_once(self, task: Task) -> bool:
        """Whether a `once` task may be called: never when it was before and nobody knows what became of it."""
        known = (task.answers or {}).get("once")
        if known is not None:
            self._settle_once(task, known)
            return False
        if task.attempted:
            self.ask_what_became(task, "was interrupted")
            return False
        self._recorder.note("attempted", journal.attempted(task, self._clock()))
        task.attempted = True
        return True

    def begin_step(self, task: Task, name: str, data: dict[str, Any]) -> None:
        """A step of a node begins that must not be done twice."""
        usage = self._purse.record(task)
        self._recorder.note("attempted", journal.attempted(task, self._clock(), name, data, usage))
        self._machine.memo(task, name, data)

    def ask_what_became(self, task: Task, what: str) -> None:
        """A side effect that must not repeat has an outcome that nobody knows."""
        self.ask(task, once_question(task, what))

    def _settle_once(self, task: Task, known: str) -> None:
        try:
            writes, ways = once_update(task, known, self._key(task))
        except (StateError, RoutingError) as error:
            self._stand_failed(task, error)
            return
        if writes is None:
            self._stand_failed(task, FlowAgentError("it was aborted by the answer to what became of its side effect"))
        else:
            self._finish(task, writes, ways, 0.0)

    def _stand_failed(self, task: Task, error: Exception) -> None:
        failure = _failure(task, error)
        self._note_failed(task, (failure,), final=True)
        self._teller.failed(task, (failure,))
        self._machine.fail(task, (failure,))


def item_of(task: Task) -> Any:
    """The item of a task that is one of several."""
    if task.index is None:
        return None
    if task.item is not None:
        return task.item.value
    node = task.place.node
    assert isinstance(node, MapNode), "only maps have items in the state; this is a bug in flowagent"
    return mapped_items(task.values[node.over])[task.index]


def _failure(task: Task, error: BaseException) -> Failure:
    return Failure(
        graph=task.scope.topology.name,
        node=task.place.name,
        task=task.id,
        attempt=task.attempt,
        kind=type(error).__name__,
        message=f"{text_of(error)}{_while_handling(task)}",
        cause=error,
    )


def _while_handling(task: Task) -> str:
    """What a handler that failed was called for: whoever mends it needs to know both."""
    if not task.caught:
        return ""
    return f" (while handling {'; '.join(f'`{one.task}`: {one.kind}: {one.message}' for one in task.caught)})"
