"""Figures of what was spent, for people: the same words in pictures, on the command line and in reasons."""

from __future__ import annotations

from decimal import Decimal

from flowagent.core.usage import Usage


def spent(usage: Usage) -> list[str]:
    """What was spent in tokens and money; a sum of which a part is not known says so.

    Example:
        >>> spent(Usage(requests=2, input=1000, output=234, unpriced=1))
        ['1,234 tokens', 'cost unknown']
    """
    parts: list[str] = []
    if usage.tokens is not None:
        parts.append(f"{_at_least(usage.unmeasured)}{counted(usage.tokens, 'token')}")
    elif usage.unmeasured:
        parts.append("tokens unknown")
    if usage.cost is not None:
        parts.append(f"{_at_least(usage.unpriced)}{dollars(usage.cost)}")
    elif usage.unpriced:
        parts.append("cost unknown")
    return parts


def spent_in_all(usage: Usage) -> list[str]:
    """The same with how many requests and calls of tools there were."""
    parts = [counted(usage.requests, "request")] if usage.requests else []
    parts += [counted(usage.tool_calls, "tool call")] if usage.tool_calls else []
    return parts + spent(usage)


def counted(count: int, one: str) -> str:
    """So many of something: `1 token`, `1,234 tokens`."""
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def dollars(cost: Decimal) -> str:
    """An amount of money in cents, or two figures of what is less: `$1.20`, `$0.0034`."""
    if cost >= 1 or not cost:
        return f"${cost:,.2f}"
    return f"${cost:.{max(2, 1 - cost.adjusted())}f}"


def _at_least(unknown: int) -> str:
    return "≥ " if unknown else ""
