"""What a request asks for against what a model accepts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flowagent.errors import ModelError
from flowagent.models.accepted import accepted
from flowagent.models.base import ModelRequest, Only, OutputSpec, Profile, ToolSpec
from flowagent.models.messages import Media, UserMessage, user

ADD = ToolSpec(name="add", parameters={"type": "object"})
OUTPUT = OutputSpec(name="count", schema_={"type": "object"})
PROFILE = Profile(output=True, settings=frozenset({"parallel_tool_calls", "thinking", "max_tokens"}))


def asking(**more: Any) -> ModelRequest:
    return ModelRequest(messages=(user("hi"),), **more)


def refusal(request: ModelRequest, profile: Profile) -> str:
    with pytest.raises(ModelError) as caught:
        accepted(request, profile, "x:m", drop=False)
    assert (caught.value.kind, caught.value.retryable, caught.value.model) == ("unsupported", False, "x:m")
    return str(caught.value)


def test_what_the_model_accepts_passes_as_it_is() -> None:
    request = asking(tools=(ADD,), tool_choice=Only(tool="add"), settings={"max_tokens": 5})
    assert accepted(request, PROFILE, "x:m", drop=False) == request


@pytest.mark.parametrize(
    ("request_", "profile", "words"),
    [
        (asking(tools=(ADD,)), replace(PROFILE, tools=False), "it takes no tools"),
        (asking(tool_choice="required"), PROFILE, "tool_choice='required' without any tool"),
        (asking(tool_choice=Only(tool="sub")), PROFILE, "names `sub`, which is none of the request's tools"),
        (asking(tools=(ADD,), tool_choice="required"), replace(PROFILE, forced_tools=False), "made to call a tool"),
        (asking(output=OUTPUT), replace(PROFILE, output=False), "output: it cannot be held to a JSON schema"),
        (asking(output=OUTPUT, tools=(ADD,)), PROFILE, "while it has tools"),
        (asking(settings={"thinking": True}), PROFILE, "this model does not think"),
        (asking(settings={"parallel_tool_calls": True}), replace(PROFILE, parallel_tools=False), "holds one call"),
    ],
)
def test_what_the_model_refuses_is_told(request_: ModelRequest, profile: Profile, words: str) -> None:
    assert words in refusal(request_, profile)


def test_all_faults_are_told_at_once() -> None:
    request = asking(tools=(ADD,), output=OUTPUT, settings={"seed": 1, "top_k": 2})
    text = refusal(request, replace(PROFILE, tools=False, output=False))
    assert text.splitlines() == [
        "x:m was not asked:",
        "  - it takes no tools",
        "  - output: it cannot be held to a JSON schema",
        "  - settings['top_k'] is not accepted by this model",
        "  - settings['seed'] is not accepted by this model",
        "Leave that out, ask another model, or pass profile= if you know that this one accepts it.",
    ]


def test_one_call_at_a_time_need_not_be_said_to_a_model_that_knows_nothing_else() -> None:
    request = asking(settings={"parallel_tool_calls": False})
    assert accepted(request, replace(PROFILE, parallel_tools=False), "x:m", drop=False).settings == {}


def test_not_to_think_is_no_fault_where_a_model_does_not_think() -> None:
    request = asking(settings={"thinking": False})
    assert accepted(request, PROFILE, "x:m", drop=False) == request


def test_text_behind_a_url_is_refused() -> None:
    page = UserMessage(parts=(Media(url="https://x.test/a.txt", media_type="text/plain"),))
    text = refusal(ModelRequest(messages=(page,)), replace(PROFILE, media=("text/*",)))
    assert "text behind a URL" in text
