"""The one place where what a provider reports becomes `Usage`, and where it gets its price."""

from __future__ import annotations

from typing import Final

from flowagent.core.usage import NO_USAGE, Usage
from flowagent.errors import ModelError
from flowagent.models.prices import priced

_SELLERS: Final = {"openai-chat": "openai"}
"""Who sells what is served by another name."""

REFUSED = Usage(requests=1, failed=1)
"""A request that the provider turned away with an HTTP error: it is known to have used no tokens."""

LOST = Usage(requests=1, failed=1, unmeasured=1, unpriced=1)
"""A request that failed without a word on what it used."""


def spent_on(error: ModelError) -> Usage:
    """What a failed request cost: what it says itself; else it is lost, unless none was made."""
    if error.usage is not None:
        return error.usage
    return NO_USAGE if error.kind in {"unsupported", "forbidden"} else LOST


def metered(
    provider: str,
    model: str,
    *,
    read: int | None,
    written: int | None,
    cache_read: int | None = None,
    cache_write: int | None = None,
    reasoning: int | None = None,
    tier: str | None = None,
    failed: bool = False,
) -> Usage:
    """What one request used.

    Args:
        provider: who served it.
        model: the model that served it, as the provider names it.
        read: tokens read, those from and for the cache included; None if not reported.
        written: tokens written, reasoning included; None if not reported.
        cache_read: of those read, those from the cache.
        cache_write: of those read, those put into the cache.
        reasoning: of those written, those spent on reasoning.
        tier: the provider's word for the priority that it was served with, which may change the price.
        failed: whether the request failed after this was reported.
    """
    usage = Usage(
        requests=1,
        failed=int(failed),
        input=read,
        output=written,
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=reasoning,
        unmeasured=int(read is None and written is None),
        unpriced=1,
    )
    return priced(usage, _SELLERS.get(provider, provider), model, tier=tier or "")
