"""The shape of answers: how they are asked for, read and sent back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from flowagent.agents import Agent
from flowagent.agents.output import TOOL_NAME, Shape
from flowagent.errors import OutputError, ToolRetry
from flowagent.models.base import Profile
from flowagent.models.messages import ToolMessage
from flowagent.models.scripted import ANYTHING, Scripted
from flowagent.models.steps import call, calls, say


class Invoice(BaseModel):
    number: str
    cents: int


class Bounded(BaseModel):
    score: int = Field(ge=0, le=10)
    by_name: dict[str, int] = {}


class Desk(Enum):
    BILLING = "billing"
    TECH = "tech"


@dataclass
class Point:
    x: int
    y: int


BARE = Profile(tools=False)
TOOLS = Profile(tools=True)
NATIVE = Profile(tools=True, output=True)

ONE: dict[str, Any] = {"number": "A-1", "cents": 250}
INVOICE = Invoice(number="A-1", cents=250)


@pytest.mark.parametrize(
    ("profile", "has_tools", "wanted", "mode"),
    [
        (ANYTHING, True, Invoice, "native"),
        (NATIVE, False, Invoice, "native"),
        (NATIVE, True, Invoice, "tool"),
        (NATIVE, False, Bounded, "tool"),
        (NATIVE, False, Invoice | str, "tool"),
        (TOOLS, False, Invoice, "tool"),
        (BARE, False, Invoice, "prompted"),
        (ANYTHING, True, str, "text"),
    ],
)
def test_auto_takes_the_strongest_way_that_loses_nothing(
    profile: Profile, has_tools: bool, wanted: Any, mode: str
) -> None:
    """D2: native if the model has it and the schema survives, else a tool, else the prompt."""
    assert Shape(wanted).plan(profile, "openai", mode="auto", has_tools=has_tools).mode == mode


def test_a_plan_says_why_the_stronger_ways_were_passed_over() -> None:
    plan = Shape(Bounded).plan(NATIVE, "openai", mode="auto", has_tools=False)
    assert plan.mode == "tool"
    assert len(plan.why) == 1
    assert plan.why[0].startswith("native output: the schema would lose something (")


@pytest.mark.parametrize(
    ("wanted", "said", "value"),
    [
        (Invoice, ONE, Invoice(number="A-1", cents=250)),
        (list[Invoice], {"answer": [ONE]}, [Invoice(number="A-1", cents=250)]),
        (list[int], [1, 2], [1, 2]),
        (Literal["a", "b"], {"answer": "b"}, "b"),
        (Desk, {"answer": "tech"}, Desk.TECH),
        (bool, {"answer": True}, True),
        (Point, {"x": 1, "y": 2}, Point(1, 2)),
        (int, 7, 7),
    ],
)
@pytest.mark.parametrize("mode", ["native", "tool", "prompted"])
def test_every_type_can_be_asked_for_in_every_way(mode: Any, wanted: Any, said: Any, value: Any) -> None:
    """4.10: models, lists, enums, literals, dataclasses and plain values, in all three modes."""
    step = call(TOOL_NAME, **(said if isinstance(said, dict) else {"answer": said})) if mode == "tool" else say(said)
    result = Agent(Scripted(step), output=wanted, output_mode=mode).run_sync("go")
    assert (result.output, result.output_mode, result.repairs) == (value, mode, ())


def test_an_answer_may_be_text_or_a_model() -> None:
    """4.10: `output=Invoice | str`."""
    wanted: Any = Invoice | str
    assert Agent(Scripted(call(TOOL_NAME, **ONE)), output=wanted).run_sync("go").output == INVOICE
    assert Agent(Scripted(say("There is no invoice.")), output=wanted).run_sync("go").output == "There is no invoice."


def test_what_is_wrong_goes_back_with_path_and_value() -> None:
    """3: validation errors go back to the model."""
    model = Scripted(say({"number": "A-1", "cents": "lots"}), say(ONE))
    result = Agent(model, output=Invoice).run_sync("go")
    assert result.output == INVOICE
    told = model.requests[1].messages[-1].text
    assert "- cents: Input should be a valid integer" in told
    assert "(given: 'lots')" in told


def test_a_call_that_gives_the_answer_gets_a_result_when_it_does_not_fit() -> None:
    """The pair of call and result stays whole in the second request, and in the history."""
    model = Scripted(call(TOOL_NAME, number=1), call(TOOL_NAME, **ONE))
    result = Agent(model, output=Invoice, output_mode="tool").run_sync("go")
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "tool"]
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant", "tool"]


def test_other_calls_beside_the_answer_are_not_run_and_told_so() -> None:
    ran: list[str] = []

    def note(text: str) -> str:
        """Note something."""
        ran.append(text)
        return "noted"

    model = Scripted(calls(call("note", text="x"), call(TOOL_NAME, **ONE)))
    result = Agent(model, output=Invoice, output_mode="tool", tools=[note]).run_sync("go")
    assert (result.output, ran) == (INVOICE, [])
    last = result.messages[-1]
    assert isinstance(last, ToolMessage)
    assert [(one.name, one.is_error) for one in last.results] == [("note", True), (TOOL_NAME, False)]


def test_answers_that_never_fit_end_with_every_attempt() -> None:
    """Complaint 4: the error carries each text and what was wrong with it; bounded by `output_retries`."""
    model = Scripted(say({"number": "A-1"}), say("no idea"), say({}))
    with pytest.raises(OutputError) as caught:
        Agent(model, output=Invoice, output_retries=2).run_sync("go")
    assert [text for text, _ in caught.value.attempts] == ['{"number":"A-1"}', "no idea", "{}"]
    assert caught.value.attempts[0][1] == ("cents: Field required (given: {'number': 'A-1'})",)
    assert caught.value.attempts[1][1][0].startswith("it is no JSON")
    assert caught.value.usage is not None
    assert caught.value.usage.requests == 3


def test_answers_that_never_fit_can_end_the_run_without_an_error() -> None:
    """B6: the stop reason `output`."""
    model = Scripted(say("no"), say("never"))
    result = Agent(model, output=Invoice, output_retries=1, at_limit="stop").run_sync("go")
    assert (result.status, result.stop_reason) == ("completed", "output")
    assert result.ending is not None
    assert result.ending.text == "never"
    assert [message.role for message in result.messages] == ["user", "assistant", "user", "assistant", "user"]


def test_a_prompted_answer_is_read_tolerantly_and_the_repairs_are_told() -> None:
    """D3: `result.repairs` lists the edits."""
    text = "Sure!\n```json\n{'number': 'A-1', 'cents': 250,}\n```"
    result = Agent(Scripted(say(text)), output=Invoice, output_mode="prompted").run_sync("go")
    assert result.output == INVOICE
    assert result.repairs[0] == "took it out of a code fence"
    assert result.repairs[1].startswith("repaired its syntax")


def test_of_several_blocks_the_one_that_fits_is_taken() -> None:
    """D3: several blocks."""
    text = 'For {"this": "question"} I give {"number": "A-1", "cents": 250}.'
    assert Agent(Scripted(say(text)), output=Invoice, output_mode="prompted").run_sync("go").output == INVOICE


def test_the_schema_stands_in_the_prompt_or_in_the_request_and_never_in_both() -> None:
    """D1, A9: exactly one of them."""
    for mode in ("native", "tool", "prompted"):
        step = call(TOOL_NAME, **ONE) if mode == "tool" else say(ONE)
        model = Scripted(step)
        Agent(model, output=Invoice, output_mode=mode).run_sync("go")
        (request,) = model.requests
        places = [
            "cents" in request.system_text,
            request.output is not None,
            any(t.name == TOOL_NAME for t in request.tools),
        ]
        assert places == [mode == "prompted", mode == "native", mode == "tool"]


def test_a_text_where_a_tool_was_asked_for_is_told_so() -> None:
    model = Scripted(say("It is A-1."), call(TOOL_NAME, **ONE))
    assert Agent(model, output=Invoice, output_mode="tool").run_sync("go").output == INVOICE
    assert f"must be given by calling `{TOOL_NAME}`" in model.requests[1].messages[-1].text


def test_a_check_may_change_the_answer_or_send_it_back() -> None:
    """Functions of the answer, sync or async, with the context if they want it."""

    def positive(invoice: Invoice) -> Invoice:
        if invoice.cents < 0:
            raise ToolRetry("cents must not be negative")
        return invoice

    async def rounded(invoice: Invoice, ctx: Any) -> Invoice:
        return invoice.model_copy(update={"cents": invoice.cents // 100 * 100})

    model = Scripted(say({"number": "A-1", "cents": -1}), say(ONE))
    result = Agent(model, output=Invoice, checks=[positive, rounded]).run_sync("go")
    assert result.output == Invoice(number="A-1", cents=200)
    assert "- cents must not be negative" in model.requests[1].messages[-1].text
