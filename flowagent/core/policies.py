"""What a user may say about how things are run: retries, limits, failure policy. Decisions here are pure."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, TypeAlias

OnFailure = Literal["finish", "continue", "cancel"]
"""What happens to the rest of a run when a task fails: `finish` what is in flight (the default), `continue` with
everything that does not depend on it, or `cancel` what is in flight."""

Durability = Literal["step", "fast", "exit"]
"""What survives what: `step` (a power cut loses nothing acknowledged), `fast` (a killed process loses nothing), or
`exit` (records are stored when the run stops; a killed process loses all that this call did)."""

OnItemError = Literal["fail", "skip", "collect"]
Join = Literal["all", "each"]

Catchable: TypeAlias = type[Exception] | tuple[type[Exception], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a failed attempt of a node is repeated, and how long to wait before.

    Cancellation is never retried; neither is an update that the state refuses, as it would be refused again.

    Args:
        attempts: how many attempts are made in all, at least 1.
        on: the exception classes to retry.
        backoff: seconds to wait before the second attempt; each further wait is twice as long.
        longest: the longest wait in seconds.
        jitter: the share of each wait that is drawn at random, from 0 to 1.

    Raises:
        ValueError: a number out of its range.

    Example:
        >>> Retry(attempts=4, backoff=1.0, longest=3.0, jitter=0).delay(3)
        3.0
    """

    attempts: int = 3
    on: Catchable = Exception
    backoff: float = 0.5
    longest: float = 60.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"Retry(attempts={self.attempts}): at least 1 attempt is made")
        if not (self.backoff >= 0 and self.longest >= 0):  # written so that NaN is refused too
            raise ValueError("Retry: `backoff` and `longest` are seconds, 0 or more")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"Retry(jitter={self.jitter}): a share from 0 to 1")

    def allows(self, attempt: int, error: BaseException) -> bool:
        """Whether another attempt follows after this one (counted from 1) failed."""
        return attempt < self.attempts and isinstance(error, self.on)

    def delay(self, attempt: int, draw: Callable[[], float] = random.random) -> float:
        """Seconds to wait after a failed attempt (counted from 1)."""
        wait = min(self.backoff * 2.0 ** (attempt - 1), self.longest)
        return wait * (1 - self.jitter * draw())


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a run may go; at a limit it stops with status `limit`, keeps its state and can be resumed.

    Args:
        steps: node visits in all, cumulative over resumes. Routers and the items of maps are not counted;
            None means no limit.
        seconds: working time of one call, in seconds, or None. Waiting for answers is not counted.
        requests: requests to models in all, cumulative over resumes and over all nested graphs, as those below.
        tokens: tokens read and written. How many a request takes is known afterwards, so the last one may go over.
        tool_calls: calls of tools.
        cost: US dollars, kept as a `Decimal`. Likewise; requests of unknown price are not counted, which is told.

    Raises:
        ValueError: a number below what can be.

    Example:
        >>> Limits(requests=20, cost="0.50").cost
        Decimal('0.50')
    """

    steps: int | None = 1000
    seconds: float | None = None
    requests: int | None = None
    tokens: int | None = None
    tool_calls: int | None = None
    cost: Decimal | float | str | None = None

    def __post_init__(self) -> None:
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"Limits(steps={self.steps}): at least 1, or None for no limit")
        if self.seconds is not None and not self.seconds > 0:
            raise ValueError(f"Limits(seconds={self.seconds}): more than 0, or None for no limit")
        for name in ("requests", "tokens", "tool_calls"):
            most: int | None = getattr(self, name)
            if most is not None and most < 1:
                raise ValueError(f"Limits({name}={most}): at least 1, or None for no limit")
        if self.cost is not None:
            object.__setattr__(self, "cost", _dollars(self.cost))


def _dollars(cost: Decimal | float | str) -> Decimal:
    """An amount of money as it was written: 0.1 is a tenth, not the float beside it."""
    try:
        dollars = Decimal(str(cost))
    except ArithmeticError:
        dollars = Decimal("NaN")
    if not (dollars.is_finite() and dollars > 0):
        raise ValueError(f"Limits(cost={cost!r}): US dollars, more than 0, or None for no limit")
    return dollars
