"""Traces and audit logs of the providers' real packages, over HTTP to a server on this machine."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Annotated

import pytest

from flowagent import secret
from flowagent.agents import Agent
from flowagent.errors import ModelError
from flowagent.tracing import Audit, ModelReplied, listening, read_audit
from tests.models.serving import Server, refusal, stream
from tests.models.wire import APIS, RESPONSES, Api
from tests.tracing.collected import Collected, told

KEY = "sk-test-123456"
PASSWORD = "correct horse battery"


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_a_streamed_reply_is_traced_with_what_the_provider_said_of_it(
    api: Api, collected: Collected, tmp_path: Path
) -> None:
    """FA-117: names, ids and tokens come from the reply, and the trace, the log and the run agree on them."""
    with Server().running() as server:
        server.answers(stream(api.reply("hello")))
        model = api.open(server.url)
        with listening(collected.tracing(), Audit(tmp_path / "audit.jsonl")):
            result = await Agent(model, name="a").run("hi")
    (chat,) = [span for span in collected.spans if span.name.startswith("chat ")]
    known = told(chat, "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.usage.input_tokens")
    provider, _, name = model.name.partition(":")
    assert known == {
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": name,
        "gen_ai.usage.input_tokens": result.usage.input,
    }
    (replied,) = [entry for entry in read_audit(tmp_path / "audit.jsonl") if isinstance(entry, ModelReplied)]
    assert replied.reply is not None
    assert told(chat, "gen_ai.response.id", "gen_ai.response.model") == {
        "gen_ai.response.id": replied.reply.reply_id,
        "gen_ai.response.model": replied.reply.model,
    }
    assert (replied.usage, replied.reply.text, bool(replied.reply.reply_id)) == (result.usage, "hello", True)


async def test_no_key_and_no_password_is_found_in_anything_that_was_written(
    collected: Collected, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """FA-114: a tool with a secret argument, then an error that echoes the request, key, header and all."""

    def login(user: str, password: Annotated[str, secret]) -> str:
        """Log in."""
        raise PermissionError(f"{password} is wrong for {user}")

    arguments = f'{{"user": "ada", "password": "{PASSWORD}"}}'
    echo = {"error": {"message": f"bad key {KEY}: Authorization: Bearer {KEY}; {arguments}", "code": "invalid_api_key"}}
    with Server().running() as server:
        server.answers(stream(RESPONSES.reply("", (("c1", "login", arguments),))), refusal(401, echo))
        agent = Agent(
            RESPONSES.open(server.url, api_key=KEY),
            name="porter",
            tools=[login],
            settings={"headers": {"x-session": KEY}},
        )
        with pytest.raises(ModelError), listening(collected.tracing(content=True), Audit(tmp_path / "audit.jsonl")):
            await agent.run("Log me in.")
    written = "\n".join([*(span.to_json() for span in collected.spans), caplog.text]).encode()
    written += (tmp_path / "audit.jsonl").read_bytes()
    forms = [form for one in (KEY, PASSWORD) for form in (one.encode(), base64.b64encode(one.encode()).rstrip(b"="))]
    assert [form for form in forms if form in written] == []
    assert b"**********" in written
    assert [span.name for span in collected.spans if span.name.startswith("execute")] == ["execute_tool login"]
