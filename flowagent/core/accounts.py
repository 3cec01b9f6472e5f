"""What one attempt has spent and reserved: plain bookkeeping, without locks and without limits."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, NamedTuple

from flowagent.core.usage import NO_USAGE, Usage


class Amounts(NamedTuple):
    """What limits are about, as figures that are always known.

    Attributes:
        requests: requests to models.
        tool_calls: calls of tools.
        tokens: tokens read and written.
        cost: US dollars.
    """

    requests: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)

    def plus(self, other: Amounts) -> Amounts:
        """Both together."""
        return Amounts(
            self.requests + other.requests,
            self.tool_calls + other.tool_calls,
            self.tokens + other.tokens,
            self.cost + other.cost,
        )

    def less(self, other: Amounts) -> Amounts:
        """What is left of this when the other is taken away, never below nothing."""
        return Amounts(
            max(0, self.requests - other.requests),
            max(0, self.tool_calls - other.tool_calls),
            max(0, self.tokens - other.tokens),
            max(Decimal(0), self.cost - other.cost),
        )


NO_AMOUNTS: Final = Amounts()


def amounts_of(usage: Usage) -> Amounts:
    """The figures of a usage; what is not known counts as nothing, so they are a lower bound."""
    return Amounts(usage.requests, usage.tool_calls, usage.tokens or 0, usage.cost or Decimal(0))


class Account:
    """The account of one attempt.

    Attributes:
        total: all that it has spent.
        unrecorded: the part of it that stands in no record yet.
        reserved: what it means to spend still; spending uses it up.
    """

    __slots__ = ("reserved", "total", "unrecorded")

    def __init__(self) -> None:
        self.total: Usage = NO_USAGE
        self.unrecorded: Usage = NO_USAGE
        self.reserved: Amounts = NO_AMOUNTS

    def spend(self, usage: Usage) -> None:
        """Note what was spent."""
        self.total += usage
        self.unrecorded += usage
        self.reserved = self.reserved.less(amounts_of(usage))

    @property
    def claim(self) -> Amounts:
        """What has to be held against limits beside what is recorded."""
        return amounts_of(self.unrecorded).plus(self.reserved)


def amounts_asked(requests: int, tool_calls: int, tokens: int, cost: Decimal | float | str) -> Amounts:
    """What somebody wants to reserve.

    Raises:
        ValueError: a figure below 0, or a cost that is no number.
    """
    for name, figure in (("requests", requests), ("tool_calls", tool_calls), ("tokens", tokens)):
        if figure < 0:
            raise ValueError(f"reserve({name}={figure}): 0 or more")
    try:
        dollars = Decimal(str(cost))
    except ArithmeticError:
        raise ValueError(f"reserve(cost={cost!r}): a number of US dollars") from None
    if not dollars.is_finite() or dollars < 0:
        raise ValueError(f"reserve(cost={cost!r}): US dollars, 0 or more")
    return Amounts(requests, tool_calls, tokens, dollars)
