"""What agents cost is counted alike everywhere, and their keys are found nowhere."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from flowagent import START, Graph, Limits, Retry, State
from flowagent.agents import Agent
from flowagent.core.usage import Usage
from flowagent.errors import ModelError, RunFailed
from flowagent.models.scripted import FunctionModel, Scripted
from flowagent.models.steps import call, calls, fail, say
from flowagent.stores import EncryptedStore, SQLiteStore
from flowagent.stores.encrypted import new_key
from tests.models.serving import Server, refusal
from tests.models.wire import APIS, KEY, Api


class Doc(State):
    topic: str
    draft: str = ""
    review: str = ""


def used(tokens: int) -> Usage:
    return Usage(requests=1, input=tokens, output=1)


def two_agents() -> Graph[Doc, Any]:
    """One agent in the graph, one in a graph within, whose first request fails after it was charged."""
    inner = Graph("inner", Doc)
    failing = fail("cut_off", usage=Usage(requests=1, failed=1, input=7))
    critic = Agent(
        Scripted(failing, say("fine", usage=used(20))), name="critic", retry=Retry(attempts=2, backoff=0, on=ModelError)
    )
    inner.node(critic, prompt="{draft}", into="review")
    inner.chain(START, "critic", "END")
    outer = Graph("outer", Doc)
    outer.node(Agent(Scripted(say("text", usage=used(10))), name="writer"), prompt="{topic}", into="draft")
    outer.node(inner, name="reviewing")
    outer.chain(START, "writer", "reviewing", "END")
    return outer


async def test_streamed_and_plain_runs_have_the_same_totals_with_what_failed() -> None:
    """FA-117: per node and per run; the failed attempt's tokens are counted and marked."""
    plain = await two_agents().run(Doc(topic="tides"))
    async with two_agents().stream(Doc(topic="tides")) as watch:
        async for _ in watch:
            pass
    streamed = watch.run
    assert streamed.usage == plain.usage == Usage(requests=3, failed=1, input=37, output=2)
    assert streamed.usage_by_node() == plain.usage_by_node()


def test_a_provider_that_tells_no_numbers_is_not_cheap() -> None:
    """FA-117: no numbers are unknown, not 0."""
    model = Scripted(say("x", usage=Usage(requests=1, unmeasured=1, unpriced=1)))
    usage = Agent(model).run_sync("go").usage
    assert (usage.tokens, usage.cost, usage.unmeasured, usage.unpriced) == (None, None, 1, 1)


@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
async def test_a_budget_of_tokens_stops_a_run_however_it_is_watched(is_streamed: bool) -> None:
    """FA-117: a token budget stops the streamed run, too."""

    def again() -> str:
        """Again."""
        return "again"

    model = FunctionModel(lambda _: calls(call("again"), usage=used(100)))
    agent = Agent(model, tools=[again], limits=Limits(requests=50), tool_errors=50)
    limits = Limits(tokens=250)
    if is_streamed:
        async with agent.stream("go", limits=limits) as watch:
            async for _ in watch:
                pass
        result = watch.result
    else:
        result = await agent.run("go", limits=limits)
    assert (result.status, result.usage.tokens) == ("limit", 303)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_a_key_is_found_in_nothing_that_a_failed_run_leaves(
    api: Api, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """FA-114: an HTTP error echoes the key; it is in no store, picture, error, log or stream, plain or as base64."""
    caplog.set_level("DEBUG")
    with Server().running() as server:
        server.answers(refusal(401, {"error": {"message": f"invalid key {KEY}", "type": "invalid_request_error"}}))
        agent = Agent(api.open(server.url), name="a", debug=True)
        with pytest.raises(ModelError) as caught:
            agent.run_sync("go", store=tmp_path / "runs.db", run_id="r")
    run = agent.graph.load_sync("r", store=tmp_path / "runs.db")
    run.draw().save(tmp_path / "r.svg")
    out, err = capfd.readouterr()
    places = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    places |= {"out": out.encode(), "err": err.encode(), "log": caplog.text.encode()}
    places["error"] = f"{caught.value!r} {caught.value.__cause__!r} {agent!r} {agent.model!r} {run!r}".encode()
    hidden = [KEY.encode(), base64.b64encode(KEY.encode()).rstrip(b"=")]
    assert [name for name, data in places.items() if any(one in data for one in hidden)] == []
    assert "401" in str(caught.value) or "auth" in caught.value.kind


def login(name: str, password: SecretStr) -> str:
    """Log in."""
    return f"{name} is in" if password.get_secret_value() == "hunter2-hunter2" else "wrong"


def test_a_tool_with_a_secret_argument_wants_an_encrypted_store(tmp_path: Path) -> None:
    """FA-114: models write it into the conversation, which is stored; so nothing is asked where it could be read."""
    model = Scripted(call("login", name="ann", password="hunter2-hunter2"), say("in"))
    agent = Agent(model, tools=[login])
    with pytest.raises(RunFailed, match=r"`password` of tool `login`.* is secret, and the store of this run is not"):
        agent.run_sync("go", store=tmp_path / "plain.db")
    assert len(model.requests) == 0
    store = EncryptedStore(SQLiteStore(tmp_path / "runs.db"), keys=[new_key()])
    result = agent.run_sync("go", store=store, run_id="r")
    asyncio.run(store.close())
    assert result.output == "in"
    assert not any(b"hunter2" in path.read_bytes() for path in tmp_path.iterdir())
