"""What nodes do to a simulated world: each call is held at once against what has been acknowledged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from flowagent import Context
from tests.kill.effects import Effects
from tests.simulation.generated import Counting
from tests.simulation.store import Ledger


class Witness(Counting):
    """Takes down calls instead of writing them to a file.

    Args:
        ledger: what is acknowledged; told what is wrong.
        seed: decides the pauses.
        needed_by: what must be acknowledged before a call is made.
        once: the calls that must not be made twice.

    Attributes:
        calls: each call, in order.
        begun: the calls and their attempts by the call of the graph that is under way; None if there may be two.
        is_ahead: whether what a call follows from must be acknowledged before it: not at durability `exit`.
    """

    def __init__(
        self, ledger: Ledger, seed: str, needed_by: Callable[[str], Collection[str]], once: Collection[str]
    ) -> None:
        super().__init__(Path(), seed, 0.02)
        self._ledger = ledger
        self._needed_by = needed_by
        self._once = once
        self._attempts: Counter[str] = Counter()
        self.calls: list[str] = []
        self.begun: set[tuple[str, int]] | None = None
        self.is_ahead = True

    def count(self, task: str) -> int:
        """How often a task was called, this time included."""
        self._attempts[task] += 1
        return self._attempts[task]

    def work(self, ctx: Context[Effects, Any], part: str = "") -> None:
        """A call begins: what it does comes a moment later, as in `Effects`."""
        self._begin(ctx, part)
        super().work(ctx, part)

    async def work_beside(self, ctx: Context[Effects, Any], part: str = "") -> None:
        """`work` that lets others work meanwhile."""
        self._begin(ctx, part)
        await super().work_beside(ctx, part)

    def _begin(self, ctx: Context[Effects, Any], part: str) -> None:
        call = _call(ctx, part)
        faults, stored = self._ledger.faults, self._ledger.stored
        if ctx.key != f"{ctx.run_id}/{ctx.task_id}":
            faults.append(f"`{call}` was called with the key `{ctx.key}`")
        self._refuse_recorded(ctx, call)
        if self.begun is not None:
            if (call, ctx.attempt) in self.begun:
                faults.append(f"attempt {ctx.attempt} of `{call}` was made twice by one call")
            self.begun.add((call, ctx.attempt))
        missing = set(self._needed_by(call)) - stored - self._ledger.failed
        if self.is_ahead and missing:
            faults.append(f"`{call}` was called before {sorted(missing)} was acknowledged")

    def leave(self, ctx: Context[Effects, Any], part: str) -> None:
        """A call does what it does.

        One in a thread goes on when its attempt is over: nothing can stop it, and what it does comes late.
        """
        call = _call(ctx, part)
        attempt: Any = ctx._port
        if not attempt.is_over:
            self._refuse_recorded(ctx, call)
        if call in self._once and call in self.calls:
            self._ledger.faults.append(f"`{call}` must not be called twice, and was")
        self.calls.append(call)

    def _refuse_recorded(self, ctx: Context[Effects, Any], call: str) -> None:
        if {call, ctx.task_id} & self._ledger.stored:
            self._ledger.faults.append(f"`{call}` was recorded, and was called again")

    def has_done(self, task: str) -> bool:
        """Whether a task was called."""
        return task in self.calls

    def _write(self, line: bytes) -> None:
        """Somebody does a task's work by hand."""
        self.calls.append(line.decode().rpartition(" ")[0])


def _call(ctx: Context[Effects, Any], part: str) -> str:
    return f"{ctx.task_id}#{part}" if part else ctx.task_id
