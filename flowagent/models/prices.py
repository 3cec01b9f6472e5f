"""What requests cost: `priced` fills in the money from a table that comes with the package `genai-prices`.

The table is the one that was installed; nothing is ever fetched. `Prices` puts prices of your own before it, `Priced`
gives them to a model.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import Any, Final, Protocol, cast

from flowagent.core.usage import Usage
from flowagent.models.around import Around
from flowagent.models.base import Model, ModelRequest, Reply, StreamPart

MILLION: Final = Decimal(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars for a million tokens.

    Args:
        input: of those read.
        output: of those written.
        cache_read: of those read from the provider's cache; as `input`, if None.
        cache_write: of those put into the provider's cache; as `input`, if None.

    Raises:
        ValueError: a price is below 0 or no number.

    Example:
        >>> Price(input=Decimal("1.25"), output=Decimal(10)).cost(Usage(requests=1, input=2_000, output=500))
        Decimal('0.0075')
    """

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None

    def __post_init__(self) -> None:
        for price in (self.input, self.output, self.cache_read, self.cache_write):
            if price is not None and not (price.is_finite() and price >= 0):
                raise ValueError(f"{self}: a price is a number of dollars, 0 or more")

    def cost(self, usage: Usage) -> Decimal | None:
        """What tokens cost at this price; None where they are not all known."""
        if usage.input is None or usage.output is None:
            return None
        read, written = usage.cache_read or 0, usage.cache_write or 0
        cost = (
            max(usage.input - read - written, 0) * self.input
            + read * (self.input if self.cache_read is None else self.cache_read)
            + written * (self.input if self.cache_write is None else self.cache_write)
            + usage.output * self.output
        )
        return (cost / MILLION).normalize()


FREE: Final = Price(input=Decimal(0), output=Decimal(0))
"""The price of what runs on your own machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """A table of prices.

    Args:
        own: prices by `provider:model`, or by `provider:*` for all models of a provider that are not named. They come
            before those of the package.
        builtin: whether those of the package are used.

    Example:
        >>> Prices(own={"ollama:*": FREE}).cost(Usage(requests=1, input=10, output=5), "ollama", "qwen3")
        Decimal('0')
    """

    own: Mapping[str, Price] = field(default_factory=lambda: MappingProxyType({}))
    builtin: bool = True

    def __post_init__(self) -> None:
        wrong = [name for name in self.own if not all(name.partition(":"))]
        if wrong:
            raise ValueError(f"prices stand by `provider:model` or `provider:*`, not by {', '.join(map(repr, wrong))}")

    def cost(
        self, usage: Usage, provider: str, model: str, when: datetime | None = None, *, tier: str = ""
    ) -> Decimal | None:
        """What tokens cost in US dollars; None if the price or a part of the tokens is not known.

        Args:
            usage: the tokens of one or more requests; prices that rise with the length of a request are right for one.
            provider: who served them.
            model: the model, as the provider names it.
            when: when, for prices that have changed since; now, if None.
            tier: the provider's word for the priority that it was served with; prices of `own` know none.

        Raises:
            ValueError: `when` has no time zone.
        """
        if when is not None and when.tzinfo is None:
            raise ValueError(f"when={when!r} has no time zone, so it is no moment; use datetime.now(UTC)")
        own = self.own.get(f"{provider}:{model}") or self.own.get(f"{provider}:*")
        if own is not None:
            return own.cost(usage)
        return _listed_cost(usage, _Served(provider, model, when, tier)) if self.builtin else None

    def priced(self, usage: Usage, provider: str, model: str, when: datetime | None = None, *, tier: str = "") -> Usage:
        """Usage with its cost; `unpriced` counts its requests where that is not known.

        Usage that has a cost already, or in which no model was asked, is given back as it is. Of a sum, what was not
        measured stays unpriced.
        """
        if usage.cost is not None or not usage.requests:
            return usage
        cost = self.cost(usage, provider, model, when, tier=tier)
        unpriced = usage.requests if cost is None else usage.unmeasured
        return usage.model_copy(update={"cost": cost, "unpriced": unpriced})


@dataclass(frozen=True, slots=True)
class _Served:
    """Whose price is looked up."""

    provider: str
    model: str
    when: datetime | None
    tier: str


DEFAULT_PRICES: Final = Prices()


def priced(usage: Usage, provider: str, model: str, when: datetime | None = None, *, tier: str = "") -> Usage:
    """Usage with its cost by the package's table; see `Prices.priced`.

    Example:
        >>> priced(Usage(requests=1, input=10, output=5), "nobody", "nothing").unpriced
        1
    """
    return DEFAULT_PRICES.priced(usage, provider, model, when, tier=tier)


class Priced(Around):
    """A model whose usage is priced by a table of your own, whatever its provider's file found.

    Args:
        model: who is asked.
        prices: the table.

    Example:
        >>> from flowagent.models.scripted import Scripted
        >>> model = Priced(Scripted("hello"), Prices(own={"scripted:*": FREE}))
    """

    def __init__(self, model: Model, prices: Prices) -> None:
        super().__init__(model)
        self._prices = prices

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Answer, telling parts as they come; the last one is the `Reply`."""
        async with aclosing(self._model.stream(request)) as parts:
            async for part in parts:
                yield self._with_price(part) if isinstance(part, Reply) else part

    def _with_price(self, reply: Reply) -> Reply:
        provider, _, model = self._model.name.partition(":")
        bare = reply.usage.model_copy(update={"cost": None})
        usage = self._prices.priced(bare, reply.message.provider or provider, reply.message.model or model)
        return replace(reply, message=reply.message.model_copy(update={"usage": usage}))


class _Table(Protocol):
    """What we use of the package."""

    def calc(
        self, usage: Any, model_ref: str, provider_id: str, url: None, when: datetime | None, context: dict[str, str]
    ) -> Any: ...


@cache
def _table() -> tuple[_Table, frozenset[str]]:
    """The prices that were installed and the providers that they are of.

    It is a table of ours: one that the program has updated by the package's own means is not used.
    """
    providers = importlib.import_module("genai_prices.data").providers
    snapshots = importlib.import_module("genai_prices.data_snapshot")
    table = cast("_Table", snapshots.DataSnapshot(providers=providers, from_auto_update=False))
    return table, frozenset(provider.id for provider in providers)


def _listed_cost(usage: Usage, served: _Served) -> Decimal | None:
    table, providers = _table()
    # The package would take `my-openai` for OpenAI, whose prices such a server need not have.
    if usage.input is None or usage.output is None or served.provider not in providers:
        return None
    types = importlib.import_module("genai_prices.types")
    tokens = types.Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    context = {"service_tier": served.tier} if served.tier else {}
    try:
        found = table.calc(tokens, served.model, served.provider, None, served.when, context)
    except (LookupError, ValueError):  # No such model; figures that contradict each other.
        return None
    return cast("Decimal", found.total_price).normalize()
