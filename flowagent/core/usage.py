"""`Usage`: what models and tools have cost so far, in one normal form for all providers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ConfigDict, NonNegativeInt


class Usage(BaseModel):
    """What was spent: requests, tool calls, tokens and money. Sums are made by `+`.

    Unknown is `None`, never 0: a provider that reports nothing must not look cheap. In a sum, what is known is added
    up, and `unmeasured` and `unpriced` count the requests whose part is missing, so a sum with either above 0 is a
    lower bound.

    Args:
        requests: how many requests were made to models, those that failed included.
        failed: how many of them failed; tokens that they are known to have used are counted.
        tool_calls: how many calls of tools were started.
        input: tokens read by the model, those from and for its cache included; None if not reported.
        output: tokens written by the model, reasoning included; None if not reported.
        cache_read: of `input`, those that came from the provider's cache; None if not reported.
        cache_write: of `input`, those that were put into the cache; None if not reported.
        reasoning: of `output`, those spent on reasoning; None if not reported.
        cost: the price in US dollars; None if it is not known.
        unmeasured: how many requests reported no tokens.
        unpriced: how many requests have no known price.

    Example:
        >>> one = Usage(requests=1, input=10, output=5)
        >>> both = one + Usage(requests=1, unmeasured=1)
        >>> both.requests, both.tokens, both.unmeasured, both.cost
        (2, 15, 1, None)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    requests: NonNegativeInt = 0
    failed: NonNegativeInt = 0
    tool_calls: NonNegativeInt = 0
    input: NonNegativeInt | None = None
    output: NonNegativeInt | None = None
    cache_read: NonNegativeInt | None = None
    cache_write: NonNegativeInt | None = None
    reasoning: NonNegativeInt | None = None
    cost: Decimal | None = None
    unmeasured: NonNegativeInt = 0
    unpriced: NonNegativeInt = 0

    def __add__(self, other: Usage) -> Usage:
        """Both together."""
        return Usage(**{name: _sum(getattr(self, name), getattr(other, name)) for name in Usage.model_fields})

    def __bool__(self) -> bool:
        """Whether anything was spent at all."""
        return self != NO_USAGE

    @property
    def tokens(self) -> int | None:
        """Tokens read and written; None if nothing was reported."""
        return _sum(self.input, self.output)

    def plain(self) -> dict[str, Any]:
        """What is worth storing of it, as JSON data: `Usage(**plain)` is equal."""
        return self.model_dump(mode="json", exclude_defaults=True)


def _sum(one: Any, other: Any) -> Any:
    """The sum of two figures of which either may be unknown."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


NO_USAGE = Usage()
"""Nothing was spent."""
