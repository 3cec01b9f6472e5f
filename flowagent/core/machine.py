"""The kernel: facts go in, the tasks that may start come out. No clock, no chance, no I/O, no event loop.

A finished task becomes a commit; its arrows are live tokens; a token at a node makes a task, alone or with the
others that meet there. Maps and nested graphs are containers: tasks that hold tasks. How joins, ids and merges
work is told in `docs/design.md`; the words are the same here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, assert_never

from flowagent.core import ids
from flowagent.core.commits import (
    Arrow,
    Commit,
    Sent,
    common_dominator,
    fold_order,
    in_turn,
    meet,
    seal,
    written_beside,
)
from flowagent.core.containers import (
    catches,
    has_begun_inside,
    holder_of,
    is_beside,
    is_caught_below,
    is_contained,
    is_run_itself,
    is_unmerged,
    limited_items,
    mapped_items,
    slots_for,
    tolerates,
    upwards,
)
from flowagent.core.facts import Failure, Question, TaskStatus, Way
from flowagent.core.nodes import END, ItemNode, MapNode
from flowagent.core.policies import OnFailure
from flowagent.core.scope import NO_RESULTS, GroupKey, Scope, Task
from flowagent.core.tips import folded_ends, tails_of
from flowagent.core.topology import Place, Topology
from flowagent.core.turns import Turns
from flowagent.core.usage import Usage
from flowagent.core.visits import mark_again, marked, number_of
from flowagent.core.writes import NOTHING, Values, Writes, applied
from flowagent.errors import StateError

_END = 1


class Machine:
    """The position of one run.

    Args:
        topology: the run's graph.
        values: the validated input.
        on_failure: what a failed task does to the rest.

    Attributes:
        ready: tasks that may start, or whose container may be closed.
        tasks: all unfinished tasks by id.
        failing: those of them that stand failed.
        stuck: containers that catch failures and in which nothing can go on; somebody has to decide.
        unmerged: tasks that could not be merged since this was last emptied, for the journal.
        questions: the open ones by id.
        steps: node visits so far, routers and items not counted.
        turns: which items of maps with `at_most` have theirs.
    """

    def __init__(self, topology: Topology, values: Values, *, on_failure: OnFailure = "finish") -> None:
        self.on_failure: OnFailure = on_failure
        self.ready: deque[Task] = deque()
        self.tasks: dict[str, Task] = {}
        self.failing: dict[str, Task] = {}
        self.stuck: list[Task] = []
        self.unmerged: list[Task] = []
        self.questions: dict[str, Question] = {}
        self.steps = 0
        self.turns = Turns(self.tasks, self.ready, self.stuck)
        self.root = Scope(topology, values, None)

    def begin(self) -> None:
        """Let the first tasks of the run become ready."""
        self._begin(self.root)

    @property
    def final(self) -> Values | None:
        """The final state, once the run is over."""
        return self.root.values

    # -- facts ---------------------------------------------------------------------------------------------------

    def finish(self, task: Task, writes: Writes, ways: Sequence[Way] = ()) -> None:
        """A task is done: commit its update and send it on its way.

        Args:
            task: a task that runs, or a container whose inside is over.
            writes: its validated update.
            ways: where it goes, if its node chooses.
        """
        if not task.counted:
            self._count(task)
        if task.index is not None:
            self._finish_sent_item(task, writes)
            return
        place = task.place
        if not place.chooses:
            ways = place.ways
        if len(ways) == 1 and task.scope.is_alone and ways[0].head != _END:
            self._advance(task, writes, ways[0])
            return
        if place.chooses and len(ways) > 1:
            ways = sorted(ways, key=lambda way: place.rank[way.head])
        self._commit(task, writes, ways)

    def finish_item(self, task: Task, value: Any, data: bytes) -> None:
        """An item of a map is done and leaves its result with the map."""
        self._settle(task, (True, value, data))

    def fail(self, task: Task, failures: tuple[Failure, ...]) -> None:
        """A task failed for good: its handler takes over, or its map goes on without it, or it stands failed."""
        self._count(task)
        task.failures = failures
        if task.place.handler is not None and task.index is None:
            self._hand_over(task)
        elif task.container is not None and tolerates(task.container):
            self._drop_inside(task)
            self._settle(task, (False, failures))
        else:
            self._stand_failed(task)

    def open(self, task: Task, values: Values) -> None:
        """A nested or mapped graph begins, with its validated input."""
        topology = task.place.child
        assert topology is not None, "only graphs are opened; this is a bug in flowagent"
        self._count(task)
        task.status = "inside"
        task.child = Scope(topology, values, task)
        self._begin(task.child)

    def open_items(self, task: Task) -> None:
        """A map, or the target of `Send`s, begins with its items."""
        self._count(task)
        node = task.place.node
        if isinstance(node, MapNode):
            self._hold_items(task, [None] * len(mapped_items(task.values[node.over])))
        else:
            self._hold_items(task, [item for arrow in task.arrows for item in arrow.sent])

    def go_on_inside(self, task: Task) -> None:
        """A stuck container is tried again: what failed inside is run again, and nothing else."""
        self._unstick(task)
        task.attempt += 1
        for inner in self.turns.in_order(task):
            if inner.status == "failed":
                self.retry(inner)
        self._look_around(task)  # failed merges are not run again

    def ask(self, task: Task, question: Question) -> None:
        """A task waits for an answer."""
        self._count(task)
        task.status = "asking"
        self.questions[question.id] = question
        self._look_around(task)

    def answer(self, question_id: str, data: Any) -> Task:
        """An open question was answered; its task may go on."""
        question = self.questions.pop(question_id)
        task = self.tasks[question.task]
        task.answers = {**(task.answers or {}), question.name: data}
        if task.status == "asking":
            self.turns.make_ready(task)
        return task

    def retry(self, task: Task) -> None:
        """A task that stands failed is run again, a container goes on inside; for a failed merge see `resolve`."""
        if task.status != "failed" or is_unmerged(task):
            return
        self._go_on_around(task)
        self._rise(task)
        if is_run_itself(task):
            self.turns.make_ready(task)
            return
        task.status = "inside"
        for inner in self.turns.in_order(task):
            self.retry(inner)
        self._look_around(task)  # failed merges are not run again

    def _rise(self, task: Task) -> None:
        self.failing.pop(task.id, None)
        task.failures = ()
        task.attempt += 1
        task.tried = task.attempt - 1

    def put_back(self, task: Task) -> None:
        """A task that was called off before it was done may start anew."""
        if task.status == "running":
            self.turns.make_ready(task)

    def memo(self, task: Task, name: str, data: Any) -> None:
        """Something was done through `ctx.step` and need not be done again."""
        task.memos = {**(task.memos or {}), name: data}

    def spend(self, task_id: str, usage: Usage) -> None:
        """A task has spent something: it counts in its graph and in all graphs around that."""
        self.root.spent += usage
        for name in ids.around(task_id):
            holder = self.tasks.get(name)
            if holder is not None and holder.child is not None:  # else it has been forgotten with its container
                holder.child.spent += usage

    def resolve(self, task: Task, writes: Writes) -> None:
        """Settle a failed merge: the written fields are as given, whatever the branches wrote.

        The settlement is a commit of its own, between the arrivals and the task that could not start.

        Raises:
            ConflictError: another field is in conflict too.
        """
        scope = task.scope
        top, values, since = meet(scope.topology.schema, task.parents, writes)
        commit = Commit(f"{task.id}~resolved", task.number, top.marks, task.parents, values)
        commit.dominator, commit.depth, commit.writes = top, top.depth + 1, writes
        for arrow in task.arrows:
            arrow.children.append(commit)
        seal(scope.topology.schema, commit, since, keep=scope.owner is not None)
        onward = Arrow(commit, task.place.index)
        onward.sent = [item for arrow in task.arrows for item in arrow.sent]
        commit.arrows.append(onward)
        self._go_on_around(task)
        self.failing.pop(task.id)
        task.failures = ()
        if task.place.index == _END:
            del self.tasks[task.id]
            onward.ended, scope.ended = True, [onward]
            scope.live = 0
            self._over(scope, values, commit.writes)  # all ways lead to it, so all that was done is sealed into it
            return
        scope.hold(onward, fired=True)
        scope.release(task.arrows, task.place)
        scope.live += 1 - len(task.arrows)
        task.arrows, task.parents, task.top, task.values, task.since_top = (onward,), (commit,), commit, values, NOTHING
        self.turns.make_ready(task)

    # -- questions to the machine ----------------------------------------------------------------------------------

    def next_ready(self) -> Task | None:
        """The next task that may start, without taking it; None when nothing may."""
        if self.ready and not self.failing and self.ready[0].status == "ready":
            return self.ready[0]
        for _ in range(len(self.ready)):
            task = self.ready[0]
            if task.status != "ready":
                self.ready.popleft()  # dropped with its container, or finished out of turn by a replay
            elif not self.failing or self._may_start(task):
                return task
            else:
                self.ready.rotate(-1)
        return None

    def take(self, task: Task) -> None:
        """Start the task that `next_ready` gave."""
        following = self.ready.popleft()
        assert following is task, "only the next task is taken; this is a bug in flowagent"
        task.status = "running"
        if not task.counted:
            task.counted = True
            self.steps += 1

    def would_count(self, task: Task) -> bool:
        """Whether starting a task is one more step."""
        return not task.counted

    def written_beside(self, task: Task, writes: Writes) -> dict[str, str]:
        """The plain fields of an update that a branch beside it has set otherwise, with the task that did.

        Where they meet that is a conflict, unless it is overwritten on the way.
        """
        scope = task.scope
        if task.index is not None or (scope.live < 2 and not scope.ended):
            return {}
        return written_beside(scope.topology.schema, task.parents, writes, tails_of(scope, self.tasks.values()))

    def is_halted(self) -> bool:
        """Whether a failure that nobody catches stands in the way of the rest."""
        return any(not is_contained(task) for task in self.failing.values())

    def failed_tasks(self) -> list[Task]:
        """The tasks that stand failed, by id."""
        return [self.failing[name] for name in sorted(self.failing, key=ids.natural)]

    def state(self) -> tuple[Values, tuple[str, ...]]:
        """The state as far as it came, and the fields in conflict, which keep their common dominator's value."""
        if self.root.values is not None:
            return self.root.values, ()
        return folded_ends(self.root, self.tasks.values())

    # -- coming back to an exported position -----------------------------------------------------------------------

    def regain(self, task: Task) -> None:
        """Give a restored task the state that it starts from; a merge that failed may fail again."""
        self.tasks[task.id] = task
        schema = task.scope.topology.schema
        try:
            task.top, task.values, task.since_top = meet(schema, task.parents)
            if len(task.parents) > 1:
                schema.hold_merge(task.values, task.since_top)
        except StateError as error:
            self._stand_unmerged(task, error)
            return
        if task.place.index == _END:  # merged by code that has changed since
            del self.tasks[task.id]
            task.scope.live = 0
            self._over(task.scope, task.values, in_turn(schema, task.top.writes, task.since_top))

    def regain_item(self, container: Task, index: int) -> Task:
        """Restore an item that is not settled yet."""
        sent = [item for arrow in container.arrows for item in arrow.sent]
        return self._add_item(container, index, sent[index] if sent else None)

    def stand(self, task: Task, status: TaskStatus, failures: tuple[Failure, ...]) -> None:
        """Put a restored task where it stood."""
        if task.id not in self.tasks or task.id in self.failing:
            return
        task.failures, task.status = failures, status
        if status == "ready":
            self.ready.append(task)
        elif status == "failed" and failures:
            self.failing[task.id] = task
        elif status == "failed" or (status == "inside" and task.closing):
            task.status = "queued"  # what could not be merged can be, by code that has changed since

    def catch_up(self, task: Task) -> None:
        """A record tells of a task that stands failed or waits here: it was run again, and had its turn."""
        self.retry(task)
        if task.status == "queued":
            for slots, item in reversed(limited_items(task)):
                if item not in slots.taken:
                    self.turns.let_on(slots, item)

    def look_again(self) -> None:
        """Find the containers that are stuck and share out the slots, after all was restored or replayed."""
        self.turns.is_replaying = False
        for task in list(self.failing.values()):
            self._look_whether_stuck(holder_of(task))
        self.turns.share_out_anew()

    # -- commits ---------------------------------------------------------------------------------------------------

    def _begin(self, scope: Scope) -> None:
        self._send_on(scope, scope.start, scope.topology.places[0].ways)

    def _commit(self, task: Task, writes: Writes, ways: Sequence[Way], caught: tuple[Failure, ...] = ()) -> None:
        scope, top = task.scope, task.top
        schema = scope.topology.schema
        values = applied(schema.reducers, task.values, writes) if writes else task.values
        commit = Commit(task.id, task.number, marked(task, top), task.parents, values)
        task.status = "over"  # a replay finishes tasks out of turn: `ready` has to let go of it
        del self.tasks[task.id]
        commit.dominator, commit.depth, commit.writes = top, top.depth + 1, writes
        for arrow in task.arrows:
            arrow.children.append(commit)
        if seal(schema, commit, task.since_top, keep=scope.owner is not None):
            scope.start = commit  # all before it is sealed, and must not be held on to
        self._send_on(scope, commit, ways, task, caught)
        if scope.owner is not None:
            self._look_around(scope.owner)

    def _advance(self, task: Task, writes: Writes, way: Way) -> None:
        """What committing comes to for a token that is alone and has one way on, done in place.

        All before the new commit is sealed into it, so the first commit becomes it; its arrow points on, and the
        task at its head becomes the next. No join that the token arrives at has anything to wait for. So a linear
        stretch costs neither counting nor searching nor new objects.
        """
        scope, commit, place, number, arrow = task.scope, task.top, task.place, task.number, task.arrows[0]
        topology = scope.topology
        if writes:
            task.values = commit.values = applied(topology.schema.reducers, task.values, writes)
        if place.own_slot is not None:
            mark_again(task, commit)
        if place.plain is None or task.attempt > 1 or task.caught:
            task.forget()  # a plain function that was called once has left nothing
        commit.id = task.id
        commit.number = number
        arrow.head, arrow.sent = way
        task.place = place = topology.places[way.head]
        if place.is_numbered:
            task.number, task.times = number, _ = number_of(place, commit, scope)
        else:
            task.times = 0
        task.id = name = f"{place.code}@{number}" if number else place.code
        task.status = "ready"
        task.counted = place.is_router
        tasks, ready = self.tasks, self.ready
        tasks.clear()
        tasks[name] = task
        if ready:
            ready.clear()  # a replay finishes tasks out of turn
        ready.append(task)

    def _send_on(
        self,
        scope: Scope,
        commit: Commit,
        ways: Sequence[Way],
        done: Task | None = None,
        caught: tuple[Failure, ...] = (),
    ) -> None:
        """Send tokens out of a commit, take away those that it came from, and let the joins fire that may now."""
        places = scope.topology.places
        arrived: list[Arrow] = []
        asked: set[GroupKey] = set()
        for head, items in ways:
            arrow = Arrow(commit, head)
            commit.arrows.append(arrow)
            if head == _END:
                arrow.ended = True
                scope.ended.append(arrow)
                continue
            arrow.sent = items
            scope.live += 1
            place = places[head]
            if place.holds:
                scope.hold(arrow)
            if place.is_join:
                key = scope.group_key(place, arrow)
                scope.groups.setdefault(key, []).append(arrow)
                asked.add(key)
            else:
                arrived.append(arrow)
        # The new tokens are counted before the old ones are taken away: no join sees a moment without either.
        if done is not None:
            scope.live -= len(done.arrows)
            asked |= scope.release(done.arrows, done.place)
        for arrow in arrived:
            self._trigger(scope, places[arrow.head], (arrow,), caught)
        if asked or (scope.topology.has_ties and scope.groups):  # who ties may be left alone without being freed
            self._fire(scope, asked)
        if not scope.live:
            self._end(scope)
        elif scope.live == 1 and commit is scope.start and _is_alone(scope):
            scope.be_alone()

    def _fire(self, scope: Scope, asked: set[GroupKey]) -> None:
        for key in scope.free(asked):
            self._trigger(scope, scope.topology.places[key[0]], scope.take(key))
        while (tied := scope.tied()) is not None:
            self._trigger(scope, scope.topology.places[tied[0]], scope.take(tied))
        scope.forget(asked)

    def _trigger(self, scope: Scope, place: Place, arrows: Sequence[Arrow], caught: tuple[Failure, ...] = ()) -> None:
        """Make the task of a node that some tokens have reached."""
        tail = arrows[0].tail
        number, times = number_of(place, tail, scope)
        task = Task(ids.task_id(scope.prefix, place.code, number), scope, place, number, times)
        if caught:
            task.caught = caught
        self.tasks[task.id] = task
        if len(arrows) == 1:
            task.arrows, task.parents, task.top, task.values = arrows, (tail,), tail, tail.values
            self.turns.make_ready(task)
            return
        order = {commit: at for at, commit in enumerate(fold_order([arrow.tail for arrow in arrows]))}
        task.arrows = sorted(arrows, key=lambda arrow: order[arrow.tail])
        task.parents = tuple(order)
        self._merge(task)

    def _merge(self, task: Task) -> None:
        """Give a task the state in which its branches meet; if that fails, it stands failed, and they stay stored."""
        schema = task.scope.topology.schema
        try:
            task.top, task.values, task.since_top = meet(schema, task.parents)
            schema.hold_merge(task.values, task.since_top)
        except StateError as error:
            self._stand_unmerged(task, error)
        else:
            self.turns.make_ready(task)

    def _stand_unmerged(self, task: Task, error: StateError) -> None:
        task.top = common_dominator(task.parents)
        task.failures = (
            Failure(
                graph=task.scope.topology.name,
                node=task.place.name,
                task=task.id,
                attempt=task.attempt,
                kind=type(error).__name__,
                message=str(error),
                merge=True,
                cause=error,
            ),
        )
        self.unmerged.append(task)
        # Whether that leaves a container stuck is seen when all that its parents' commit triggers is there.
        task.status = "failed"
        self.failing[task.id] = task

    def _count(self, task: Task) -> None:
        if not task.counted:
            self.steps += 1
            task.counted = True

    # -- items -----------------------------------------------------------------------------------------------------

    def _hold_items(self, task: Task, items: Sequence[Sent | None]) -> None:
        task.status = "inside"
        task.items, task.slots = {}, slots_for(task)
        task.results = [None] * len(items)
        for index, item in enumerate(items):
            self.turns.make_ready(self._add_item(task, index, item))
        if not items:
            self._close(task)

    def _add_item(self, container: Task, index: int, item: Sent | None) -> Task:
        one = Task(ids.item_id(container.id, index), container.scope, container.place, container.number, 0)
        one.container, one.index, one.item, one.counted = container, index, item, True
        one.parents, one.top, one.values = container.parents, container.top, container.values
        assert container.items is not None, "a container that begins has room for items; this is a bug in flowagent"
        container.items[index] = one
        self.tasks[one.id] = one
        return one

    def _finish_sent_item(self, task: Task, writes: Writes) -> None:
        """An item of a `Send` is a commit beside its siblings, a child of all arrows that met."""
        reducers = task.scope.topology.schema.reducers
        commit = Commit(task.id, task.number, task.top.marks, task.parents, applied(reducers, task.values, writes))
        commit.dominator, commit.depth, commit.writes = task.top, task.top.depth + 1, writes
        self._settle(task, (True, commit, b""))

    def _settle(self, task: Task, outcome: tuple[Any, ...]) -> None:
        container, index = task.container, task.index
        assert container is not None and container.items is not None and index is not None, "this is a bug in flowagent"
        container.results[index] = outcome
        del container.items[index]
        del self.tasks[task.id]
        task.status = "over"
        self.failing.pop(task.id, None)
        if container.slots is not None:
            container.slots.leave(task)
            self.turns.share_out(container.slots)
        if not container.items:
            self._close(container)
        self._look_around(container)

    def _close(self, task: Task) -> None:
        """All that a container holds is over; what is missing is its own commit."""
        task.closing = True
        if isinstance(task.place.node, ItemNode):
            self._gather(task)
        else:
            self.turns.make_ready(task)

    def _gather(self, task: Task) -> None:
        """The commits of `Send` items meet in their target's own commit."""
        scope = task.scope
        commits: list[Commit] = [outcome[1] for outcome in task.results if outcome[0]]
        for arrow in task.arrows:
            arrow.children.extend(commits)
        if len(commits) == 1:  # then it dominates what follows, like any commit
            seal(scope.topology.schema, commits[0], task.since_top, keep=scope.owner is not None)
        onward = [Arrow(commit, task.place.index) for commit in commits]
        for commit, arrow in zip(commits, onward, strict=True):
            commit.arrows.append(arrow)
            scope.hold(arrow, fired=True)
        scope.release(task.arrows, task.place)
        scope.live += len(onward) - len(task.arrows)
        task.arrows, task.parents, task.results = onward, commits, NO_RESULTS
        self._merge(task)

    # -- the end -----------------------------------------------------------------------------------------------------

    def _end(self, scope: Scope) -> None:
        """Nothing is live: the final state is the merge of all that ended."""
        ends = fold_order(list(dict.fromkeys(arrow.tail for arrow in scope.ended)))
        schema = scope.topology.schema
        try:
            top, values, since = meet(schema, ends)
            if len(ends) > 1:
                schema.hold_merge(values, since)
        except StateError as error:
            task = Task(f"{scope.prefix}{END}", scope, scope.topology.places[_END], "", 0)
            task.arrows, task.parents = tuple(scope.ended), ends
            scope.live = len(task.arrows)
            self.tasks[task.id] = task
            self._stand_unmerged(task, error)
        else:
            self._over(scope, values, in_turn(schema, top.writes, since))

    def _over(self, scope: Scope, values: Values, since: Writes) -> None:
        scope.values, scope.since = values, since
        if scope.owner is not None:
            scope.owner.closing = True
            self.turns.make_ready(scope.owner)

    # -- failures ----------------------------------------------------------------------------------------------------

    def _stand_failed(self, task: Task) -> None:
        self._unstick(task)
        task.status = "failed"
        self.failing[task.id] = task
        self._look_around(task)

    def _hand_over(self, task: Task) -> None:
        """A failure that is handled is a commit with an empty update and one arrow, to the handler."""
        self._drop_inside(task)
        self.failing.pop(task.id, None)
        handler = task.place.handler
        assert handler is not None, "only a failure with a handler is handed over; this is a bug in flowagent"
        if task.scope.is_alone:
            caught = task.failures
            self._advance(task, NOTHING, Way(handler))
            task.caught = caught
        else:
            self._commit(task, NOTHING, (Way(handler),), task.failures)

    def _drop_inside(self, task: Task) -> None:
        """Forget all that a container holds; it is over."""
        self._unstick(task)
        for inner in list(self.turns.inside(task)):
            del self.tasks[inner.id]
            self.failing.pop(inner.id, None)
            self._unstick(inner)
            inner.status = "over"
            for question in [one for one in self.questions.values() if one.task == inner.id]:
                del self.questions[question.id]
        task.items = task.child = task.slots = None

    def _unstick(self, task: Task) -> None:
        if task in self.stuck:
            self.stuck.remove(task)

    def _go_on_around(self, task: Task) -> None:
        """A task that stood failed goes on, and so do the containers around it that were stuck or failed over it."""
        for holder in upwards(holder_of(task)):
            self._unstick(holder)
            if holder.status == "failed":
                self._rise(holder)
                holder.status = "inside"

    def _look_around(self, task: Task) -> None:
        """A task, or what is inside it, may have come to rest: who is stuck, and who gives way?"""
        if self.failing:
            self._look_whether_stuck(task)
        if self.failing or self.questions:
            self.turns.give_way(task)

    def _look_whether_stuck(self, task: Task | None) -> None:
        """A container that catches failures fails once, when all else inside has gone as far as it can."""
        while task is not None:
            if task.status == "inside" and catches(task):
                if task not in self.stuck and self._is_at_rest(task):
                    self.stuck.append(task)
                return
            task = holder_of(task)

    def _is_at_rest(self, task: Task) -> bool:
        """Whether a task stands failed, or nothing inside it can go on because of what failed there."""
        has_failed = task.status == "failed"
        if not has_begun_inside(task):
            return has_failed
        for other in self.turns.inside(task):
            if other.status in ("ready", "queued", "running", "asking"):
                return False
            if other.status == "failed":
                if is_caught_below(other, task):
                    return False  # the container that catches it is stuck itself, and decided on first
                has_failed = True
        return has_failed

    def failures_inside(self, task: Task) -> tuple[Failure, ...]:
        """Why a container is stuck: the failures of the tasks inside, in the order of their ids."""
        return tuple(failure for one in self.turns.in_order(task) if one.status == "failed" for failure in one.failures)

    def _may_start(self, task: Task) -> bool:
        """Whether a task may start although others have failed."""
        match self.on_failure:
            case "continue":
                return True
            case "finish":
                return all(is_contained(failed) or is_beside(task, failed) for failed in self.failing.values())
            case "cancel":
                return not self.is_halted()  # other items neither: they were called off to be run again on resume
            case _:
                assert_never(self.on_failure)


def _is_alone(scope: Scope) -> bool:
    """Whether nothing is left of a run but the one live token: no branch has ended, and no joins count their turns."""
    return scope.owner is None and not scope.ended and not scope.topology.has_ties
