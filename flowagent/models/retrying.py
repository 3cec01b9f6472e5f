"""The one owner of retries: when a failed request is made again, after which wait, and what it all cost.

The providers' own packages are told not to retry, so that waits are not multiplied and none is hidden.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias

from flowagent.core.usage import NO_USAGE, Usage
from flowagent.errors import ModelError
from flowagent.models.base import Reply, StreamPart, Waiting
from flowagent.models.metering import spent_on

Sleep: TypeAlias = Callable[[float], Awaitable[object]]
Attempt: TypeAlias = Callable[[], AsyncGenerator[StreamPart]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying:
    """How often a failed request is made again, and how long to wait before.

    Only failures that may pass are retried: rate limits, overload, time-outs, broken connections and streams, errors
    within the provider. An answer of the provider's on how long to wait is obeyed.

    Args:
        attempts: how many requests are made in all, at least 1.
        backoff: seconds to wait before the second one; each further wait is twice as long.
        longest: the longest wait in seconds that is chosen here.
        longest_wait: the longest wait in seconds that a provider may ask for; a longer one is an error at once.
        jitter: the share of each wait that is drawn at random, from 0 to 1; never of one that the provider asked for.
        after_first: whether a stream is begun again although parts of it were told already; `Waiting.restarted`
            tells that they are void.

    Raises:
        ValueError: a number out of its range.

    Example:
        >>> Retrying(backoff=1.0, longest=3.0, jitter=0).delay(3)
        3.0
    """

    attempts: int = 4
    backoff: float = 0.5
    longest: float = 60.0
    longest_wait: float = 120.0
    jitter: float = 0.1
    after_first: bool = False

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"Retrying(attempts={self.attempts}): at least 1 request is made")
        if not (self.backoff >= 0 and self.longest >= 0 and self.longest_wait >= 0):  # so that NaN is refused too
            raise ValueError("Retrying: `backoff`, `longest` and `longest_wait` are seconds, 0 or more")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"Retrying(jitter={self.jitter}): a share from 0 to 1")

    def delay(self, attempt: int, draw: Callable[[], float] = random.random) -> float:
        """Seconds to wait after a failed attempt (counted from 1) when the provider did not say."""
        # The exponent is capped as 2.0 ** 1024 is no number any more.
        return min(self.backoff * 2.0 ** min(attempt - 1, 64), self.longest) * (1 - self.jitter * draw())

    def wait(self, attempt: int, error: ModelError) -> float | None:
        """Seconds to wait before the next attempt, or None if there is none."""
        if not error.retryable or attempt >= self.attempts:
            return None
        if error.retry_after is None:
            return self.delay(attempt)
        return error.retry_after if error.retry_after <= self.longest_wait else None


async def retried(
    attempt: Attempt, policy: Retrying, *, heard: bool = True, sleep: Sleep = asyncio.sleep
) -> AsyncGenerator[StreamPart]:
    """Make a request, again where the policy says so.

    Args:
        attempt: makes the request once and tells its parts; the last one is the `Reply`.
        policy: when to make it again.
        heard: whether somebody acts on parts before the reply; if nobody does, none of them stands in the way.
        sleep: waits; tests inject their own.

    Yields:
        The parts, `Waiting` before each wait, and last the reply, whose usage counts the failed attempts too.

    Raises:
        ModelError: it could not; its `usage` counts all attempts.
    """
    spent = NO_USAGE
    for number in count(1):
        told = False
        try:
            async with aclosing(attempt()) as parts:
                async for part in parts:
                    if isinstance(part, Reply):
                        yield _with_spent(part, spent)
                        return
                    told = heard
                    yield part
            raise ModelError("the stream ended without a reply", kind="cut_off", retryable=True)
        except ModelError as error:
            spent += spent_on(error)
            wait = None if told and not policy.after_first else policy.wait(number, error)
            if wait is None:
                raise _last(error, policy, number, spent) from error.__cause__
            failed = error
        yield Waiting(wait, failed, restarted=told)
        await sleep(wait)


def _with_spent(reply: Reply, spent: Usage) -> Reply:
    if not spent:
        return reply
    return replace(reply, message=reply.message.model_copy(update={"usage": spent + reply.usage}))


def _last(error: ModelError, policy: Retrying, attempts: int, spent: Usage) -> ModelError:
    """The error that ends it all: that of the last attempt, with what all of them cost."""
    text = str(error)
    if attempts > 1:
        text += f" (the last of {attempts} attempts)"
    if error.retryable and error.retry_after is not None and error.retry_after > policy.longest_wait:
        text += (
            f"; it asks to wait {error.retry_after:g} s, longer than Retrying(longest_wait={policy.longest_wait:g}): "
            "try again later, or allow longer waits"
        )
    return ModelError(
        text,
        kind=error.kind,
        retryable=error.retryable,
        model=error.model,
        status=error.status,
        retry_after=error.retry_after,
        request_id=error.request_id,
        partial=error.partial,
        usage=spent,
    )
