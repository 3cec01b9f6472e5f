"""Models by their names, what their profiles say, and whether requests may be made."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from anthropic.types.model_param import ModelParam as ClaudeParam
from openai.types.shared.chat_model import ChatModel

from flowagent.errors import ModelError
from flowagent.models.anthropic import AnthropicModel
from flowagent.models.base import Model, Profile, Settings
from flowagent.models.openai import OpenAIModel
from flowagent.models.openai_chat import OpenAIChatModel, OpenAICompatible
from flowagent.models.opening import LOCAL, open_model
from flowagent.models.permission import check_allowed, is_loopback
from flowagent.models.profiles import is_known, profile_of
from flowagent.models.remote import RemoteModel


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("anthropic:claude-haiku-4-5", AnthropicModel),
        ("openai:gpt-5.5", OpenAIModel),
        ("openai-chat:gpt-4.1", OpenAIChatModel),
        ("ollama:qwen3:8b", OpenAICompatible),
        ("lmstudio:qwen3", OpenAICompatible),
        ("vllm:Qwen/Qwen3", OpenAICompatible),
        ("llamacpp:any", OpenAICompatible),
    ],
)
def test_a_model_is_opened_by_its_name_and_needs_no_key_for_it(
    name: str, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = open_model(name)
    assert type(model) is kind
    assert isinstance(model, Model)
    assert (model.name, repr(model)) == (name, f"{kind.__name__}({name!r})")


@pytest.mark.parametrize(("provider", "address"), LOCAL.items())
def test_a_local_server_has_its_usual_address_unless_told_otherwise(provider: str, address: str) -> None:
    usual = open_model(f"{provider}:m")
    other = open_model(f"{provider}:m", base_url="http://10.0.0.7/v1")
    assert isinstance(usual, RemoteModel)
    assert isinstance(other, RemoteModel)
    assert (usual._address, other._address) == (address, "http://10.0.0.7/v1")


def test_a_model_passes_through() -> None:
    model = AnthropicModel("claude-haiku-4-5")
    assert open_model(model) is model
    with pytest.raises(ValueError, match="api_key would do nothing"):
        open_model(model, api_key="sk-test-123456")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("antropic:claude-haiku-4-5", "did you mean `anthropic:claude-haiku-4-5`?"),
        ("claude-haiku-4-5", "did you mean `anthropic:claude-haiku-4-5`?"),
        ("gpt-5.5", "did you mean `openai:gpt-5.5`?"),
        ("OpenAI:gpt-5.5", "did you mean `openai:gpt-5.5`?"),
        ("mistral:large", "known providers are `anthropic:`, `openai:`, `openai-chat:`, `ollama:`"),
        ("anthropic:", "write `anthropic:` and the model's name"),
        ("", "Names are written `provider:model`"),
    ],
)
def test_an_unknown_name_tells_the_known_ones_and_the_closest(name: str, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        open_model(name)
    assert caught.value.kind == "not_found"
    assert words in str(caught.value)


def test_opening_models_loads_no_package_of_a_provider() -> None:
    code = (
        "import sys, json; from flowagent.models.opening import open_model; open_model('anthropic:a');"
        "open_model('openai:b'); open_model('ollama:c');"
        "print(json.dumps([name for name in ('anthropic', 'openai', 'httpx2') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


# -- profiles --------------------------------------------------------------------------------------------------------


def test_every_model_that_the_package_of_anthropic_names_has_a_profile() -> None:
    names: tuple[str, ...] = ClaudeParam.__args__[0].__args__
    assert len(names) > 10
    assert [name for name in names if not is_known("anthropic", name)] == []


def test_every_newer_model_that_the_package_of_openai_names_has_a_profile() -> None:
    names: tuple[str, ...] = ChatModel.__args__
    old = ("gpt-3.5", "gpt-4-", "chatgpt", "codex-mini")
    unknown = [name for name in names if not is_known("openai-chat", name) and name != "gpt-4"]
    assert [name for name in unknown if not name.startswith(old)] == []


def test_profiles_speak_of_settings_that_there_are() -> None:
    names = set(Settings.__annotations__)
    models = [("anthropic", "claude-opus-5"), ("openai", "gpt-5.5"), ("openai-chat", "o3"), ("compatible", "qwen3")]
    for provider, model in models:
        profile = profile_of(provider, model)  # pyright: ignore[reportArgumentType]
        assert profile.settings <= names
        assert ("effort" in profile.settings) == bool(profile.efforts)


def test_the_longest_beginning_of_a_name_decides() -> None:
    assert profile_of("anthropic", "claude-opus-5-5").forced_tools is False
    assert profile_of("anthropic", "claude-opus-5").forced_tools is True
    assert profile_of("openai", "gpt-5.5-pro").efforts == ("medium", "high", "xhigh")


def test_an_unknown_model_gets_a_cautious_profile_that_can_be_given_by_hand() -> None:
    cautious = OpenAIModel("gpt-of-tomorrow").profile
    assert (cautious.output, cautious.strict_tools, cautious.thinking) == (False, False, "none")
    assert "temperature" not in cautious.settings
    mine = Profile(window=7)
    assert OpenAIModel("gpt-of-tomorrow", profile=mine).profile is mine
    assert OpenAICompatible("m", base_url="http://localhost/v1", profile=mine).profile is mine


# -- permission ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "url", "allowed"),
    [
        (None, "https://api.openai.com/v1", True),
        ("", "https://api.openai.com/v1", True),
        ("0", "https://api.openai.com/v1", True),
        ("1", "http://localhost:1/v1", False),
        ("yes", "http://localhost:1/v1", False),
        ("remote", "http://localhost:1/v1", True),
        ("remote", "http://127.0.0.9:1/v1", True),
        ("remote", "http://[::1]:1/v1", True),
        ("remote", "https://api.openai.com/v1", False),
        ("remote", "http://localhost.evil.test/v1", False),
        ("remote", "http://10.0.0.1/v1", False),
    ],
)
def test_one_variable_forbids_requests(
    monkeypatch: pytest.MonkeyPatch, value: str | None, url: str, allowed: bool
) -> None:
    monkeypatch.delenv("FLOWAGENT_NO_REQUESTS", raising=False)
    if value is not None:
        monkeypatch.setenv("FLOWAGENT_NO_REQUESTS", value)
    if allowed:
        check_allowed("openai:m", url)
        return
    with pytest.raises(ModelError) as caught:
        check_allowed("openai:m", url)
    assert caught.value.kind == "forbidden"
    assert f"FLOWAGENT_NO_REQUESTS={value}" in str(caught.value)


def test_a_name_that_is_no_address_is_not_this_machine() -> None:
    assert [is_loopback(url) for url in ("", "http://", "http://me/v1", "http://a.localhost/v1")] == [
        False,
        False,
        False,
        True,
    ]
