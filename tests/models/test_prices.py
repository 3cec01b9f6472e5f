"""Prices: what tokens cost, by the package's table or your own, without a network."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices import calc_price
from genai_prices.types import Provider, StartDateConstraint
from genai_prices.types import Usage as Tokens

from flowagent.core.usage import Usage
from flowagent.models.prices import FREE, Price, Priced, Prices, priced
from flowagent.models.scripted import Scripted
from flowagent.models.steps import say
from tests.models.asking import asked, ended, streamed

ONE = Usage(requests=1, input=1_000_000, output=100_000, unpriced=1)
DOLLARS = Price(input=Decimal(2), output=Decimal(10), cache_read=Decimal("0.5"), cache_write=Decimal(3))


def test_the_table_knows_what_vendors_models_cost():
    """FA-117: a known model's tokens get the cost that the package's own function gives, and nothing is unpriced."""
    usage = Usage(requests=1, input=1000, output=100, cache_read=300, cache_write=200, unpriced=1)
    tokens = Tokens(input_tokens=1000, output_tokens=100, cache_read_tokens=300, cache_write_tokens=200)
    expected = calc_price(tokens, "claude-haiku-4-5", provider_id="anthropic").total_price
    found = priced(usage, "anthropic", "claude-haiku-4-5")
    assert found == usage.model_copy(update={"cost": expected, "unpriced": 0})
    # 500 fresh tokens at $1, 300 from the cache at $0.10, 200 into it at $1.25, 100 written at $5, a million each.
    assert found.cost == Decimal("0.00128")


@pytest.mark.parametrize(
    ("usage", "provider", "model"),
    [
        (ONE, "openai", "no-such-model"),
        (ONE, "my-openai", "gpt-4.1"),
        (ONE, "openai-compatible", "gpt-4.1"),
        (ONE, "", "gpt-4.1"),
        (Usage(requests=2, unmeasured=2, unpriced=2), "openai", "gpt-4.1"),
        (Usage(requests=1, input=5, unpriced=1), "openai", "gpt-4.1"),
        (Usage(requests=1, input=5, output=5, cache_read=50, unpriced=1), "openai", "gpt-4.1"),
    ],
)
def test_an_unknown_price_is_none_and_counted(usage: Usage, provider: str, model: str):
    """Unknown models, servers that are only named like a vendor, and tokens that are not known have no price, not 0."""
    assert priced(usage, provider, model) == usage


def test_what_has_a_cost_keeps_it_and_what_asked_nobody_needs_none():
    """Usage with a cost, and usage without requests, is given back as it is."""
    for usage in (Usage(requests=1, input=5, output=5, cost=Decimal(7)), Usage(tool_calls=3), Usage()):
        assert priced(usage, "openai", "gpt-4.1") == usage


def test_in_a_sum_what_was_not_measured_stays_unpriced():
    """A sum with requests that reported nothing gets the cost of the rest, as a lower bound that says so."""
    both = Usage(requests=2, input=1_000_000, output=0, unmeasured=1, unpriced=2)
    assert Prices(own={"a:b": DOLLARS}).priced(both, "a", "b") == both.model_copy(
        update={"cost": Decimal(2), "unpriced": 1}
    )


def test_prices_of_the_past_can_be_asked_for():
    """`when` finds the price of its time, and must be a moment."""
    # Not by an import statement: a type checker takes minutes for the table.
    providers: list[Provider] = importlib.import_module("genai_prices.data").providers
    changed = [
        (provider.id, model.id, price.constraint.start_date)
        for provider in providers
        for model in provider.models
        if isinstance(model.prices, list)
        for price in model.prices
        if isinstance(price.constraint, StartDateConstraint)
    ]
    provider, model, start = changed[0]
    before = priced(ONE, provider, model, datetime(start.year - 1, 1, 1, tzinfo=UTC)).cost
    assert before is not None
    assert before != priced(ONE, provider, model, datetime(start.year + 1, 1, 1, tzinfo=UTC)).cost
    with pytest.raises(ValueError, match="has no time zone"):
        priced(ONE, "openai", "gpt-4.1", datetime(2026, 1, 1))  # noqa: DTZ001


def test_a_tier_of_service_has_its_own_price():
    """A request that was served with another priority costs what that costs."""
    normal, flex = (priced(ONE, "openai", "o3", tier=tier).cost for tier in ("", "flex"))
    assert normal is not None
    assert flex is not None
    assert flex < normal


# ------------------------------------------------------------------------------------------------------- your own


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(input=1_000_000, output=0), "2"),
        (Usage(input=0, output=1_000_000), "10"),
        (Usage(input=1_000_000, output=0, cache_read=400_000, cache_write=100_000), "1.5"),
        (Usage(input=10, output=0, cache_read=400_000), "0.2"),
        (Usage(input=10), None),
        (Usage(output=10), None),
    ],
)
def test_your_own_price_counts_each_kind_of_token(usage: Usage, cost: str | None):
    """Fresh tokens, those from and for the cache, and those written have their own prices."""
    assert DOLLARS.cost(usage) == (None if cost is None else Decimal(cost))


def test_without_prices_of_the_cache_its_tokens_cost_as_others():
    """A price without one for the cache takes that of input for it."""
    plain = Price(input=Decimal(2), output=Decimal(10))
    assert plain.cost(Usage(input=1_000_000, output=0, cache_read=400_000, cache_write=100_000)) == Decimal(2)


def test_your_own_prices_come_first():
    """A model's own price comes before its provider's, and both before the table, which can be left out."""
    other = Price(input=Decimal(1), output=Decimal(1))
    prices = Prices(own={"openai:gpt-4.1": DOLLARS, "openai:*": other})
    assert prices.cost(ONE, "openai", "gpt-4.1") == Decimal(3)
    assert prices.cost(ONE, "openai", "o3") == Decimal("1.1")
    assert prices.cost(ONE, "anthropic", "claude-haiku-4-5") == Decimal("1.5")
    assert Prices(builtin=False).cost(ONE, "openai", "gpt-4.1") is None
    assert Prices(own={"local:*": FREE}).cost(ONE, "local", "any") == 0


def test_prices_that_make_no_sense_are_refused():
    """Prices below 0 or that are no numbers, and names that are none, are refused when the table is made."""
    for wrong in ("-1", "NaN", "Infinity"):
        with pytest.raises(ValueError, match="0 or more"):
            Price(input=Decimal(wrong), output=Decimal(1))
    with pytest.raises(ValueError, match=r"not by 'gpt-4\.1', ':x'"):
        Prices(own={"gpt-4.1": FREE, ":x": FREE})


async def test_a_model_can_be_given_prices():
    """`Priced` prices each reply by its table, whatever it cost before, streamed or not."""
    usage = Usage(requests=1, input=1_000_000, output=0, cost=Decimal(99))
    model = Priced(Scripted(say("a", usage=usage), say("b", usage=usage), name="x:y"), Prices(own={"x:*": DOLLARS}))
    expected = usage.model_copy(update={"cost": Decimal(2)})
    assert (await model.request(asked())).usage == expected
    assert ended(await streamed(model, asked())).usage == expected
    assert (model.name, model.profile) == ("x:y", Scripted().profile)


# -------------------------------------------------------------------------------------------------------- no network

PROBE = """
import json, socket, sys, threading
import flowagent.models.prices as prices
early = "genai_prices" in sys.modules
def refuse(*args, **options): raise AssertionError("a connection was opened")
socket.socket.connect = socket.getaddrinfo = socket.create_connection = refuse
from flowagent.core.usage import Usage
cost = prices.priced(Usage(requests=1, input=10, output=10), "openai", "gpt-4.1").cost
from genai_prices import data_snapshot
ours = prices._table()[0].from_auto_update
print(json.dumps([early, str(cost), threading.active_count(), data_snapshot._custom_snapshot is None, ours]))
"""


def test_prices_are_loaded_late_and_never_fetched():
    """The first price loads the table; no connection is opened, and no thread is started that would update it."""
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    probe = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, env=quiet)
    assert json.loads(probe.stdout) == [False, "0.0001", 1, True, False]


def test_a_table_that_the_program_has_updated_is_not_used():
    """Prices that are fetched by the package's own means elsewhere in the program change nothing here."""
    from genai_prices.data_snapshot import DataSnapshot, set_custom_snapshot

    before = priced(ONE, "openai", "gpt-4.1")
    set_custom_snapshot(DataSnapshot(providers=[], from_auto_update=True))
    try:
        assert priced(ONE, "openai", "gpt-4.1") == before
    finally:
        set_custom_snapshot(None)
    assert before.cost == Decimal("2.8")
