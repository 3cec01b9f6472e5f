"""Keys: where they come from, and that they never show."""

from __future__ import annotations

import base64
import traceback

import pytest

from flowagent.core.usage import NO_USAGE
from flowagent.models.openai_chat import OpenAICompatible
from tests.models.asking import asked
from tests.models.failing import failed
from tests.models.serving import Server, refusal, stream
from tests.models.wire import CHAT, KEY, Api


async def test_a_key_never_shows_even_if_the_provider_repeats_it(
    api: Api, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """FA-114: neither in the error, nor in its traceback, nor in the model, nor in logs, nor in base64."""
    hidden = base64.b64encode(KEY.encode()).decode()
    caplog.set_level("DEBUG")
    server.answers(refusal(401, {"error": {"type": "authentication_error", "message": f"bad key {KEY} ({hidden})"}}))
    model = api.open(server.url)
    error = await failed(model)
    shown = (
        "".join(traceback.format_exception(error)) + repr(model) + repr(vars(model)) + repr(vars(error)) + caplog.text
    )
    assert error.kind == "auth"
    assert KEY not in shown
    assert hidden not in shown
    assert error.__cause__ is None
    assert error.__context__ is None or KEY not in repr(error.__context__)


async def test_secret_headers_do_not_show_either(api: Api, server: Server) -> None:
    """FA-114: a token among the headers of a request is masked in an error that repeats it."""
    server.answers(refusal(403, {"error": {"type": "permission_error", "message": "no: proxy-token-123"}}))
    request = asked().model_copy(update={"settings": {"headers": {"x-proxy-token": "proxy-token-123"}}})
    error = await failed(api.open(server.url), request)
    assert "proxy-token-123" not in "".join(traceback.format_exception(error))
    assert server.asked[0].headers["x-proxy-token"] == "proxy-token-123"


async def test_the_key_comes_from_the_environment_when_it_is_needed(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = api.open(server.url, api_key=None)
    monkeypatch.setenv(api.variable, "sk-from-environment")
    server.answers(stream(api.reply("Hello")))
    await model.request(asked())
    headers = server.asked[0].headers
    assert "sk-from-environment" in (headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer "))


async def test_a_key_from_the_environment_does_not_show_either(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FA-114: also a key that was never given to the model is masked."""
    monkeypatch.setenv(api.variable, "sk-from-environment")
    server.answers(refusal(401, {"error": {"type": "authentication_error", "message": "bad: sk-from-environment"}}))
    error = await failed(api.open(server.url, api_key=None))
    assert "sk-from-environment" not in "".join(traceback.format_exception(error))


async def test_without_a_key_nothing_is_asked_and_the_error_says_what_to_do(
    api: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    error = await failed(api.open(server.url, api_key=None))
    assert (error.kind, error.retryable, error.usage) == ("auth", False, NO_USAGE)
    assert api.variable in str(error)
    assert server.asked == []


async def test_a_server_of_somebody_else_gets_nothing_of_openai(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(variable, "belongs-to-openai")
    server.answers(stream(CHAT.reply("Hello")))
    await OpenAICompatible("qwen3", base_url=server.url + "/v1").request(asked())
    assert "belongs-to-openai" not in repr(server.asked[0].headers)
