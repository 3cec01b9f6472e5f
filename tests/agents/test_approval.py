"""Calls that wait for a person: decisions by call id, by whoever, in whichever process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowagent.agents import Agent
from flowagent.errors import AnswerError, FlowAgentError, RunFailed
from flowagent.models.messages import ToolMessage
from flowagent.models.scripted import Scripted
from flowagent.models.steps import call, calls, say
from flowagent.stores import MemoryStore
from flowagent.tools.decisions import Abort, Answer, Approve, Deny
from flowagent.tools.tool import tool


def refunds(paid: list[tuple[str, int]], approval: Any = True) -> Any:
    """A tool that pays, and keeps what it paid."""

    @tool(approval=approval)
    def refund(order: str, cents: int) -> str:
        """Refund an order."""
        paid.append((order, cents))
        return f"paid {cents}"

    return refund


def look(order: str) -> str:
    """Look at an order."""
    return f"order {order} is late"


TWO = calls(call("refund", order="7", cents=100), call("look", order="7"), call("refund", order="8", cents=9_000))


def last_results(model: Scripted) -> list[tuple[str, bool]]:
    message = model.requests[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    return [(one.text, one.is_error) for one in message.results]


def test_siblings_go_on_while_calls_wait_and_each_is_decided_by_its_id() -> None:
    """Complaints 30 to 33: the run pauses; what will run is shown; nothing repeats on resume."""
    paid: list[tuple[str, int]] = []
    model = Scripted(TWO, say("done"))
    agent = Agent(model, name="desk", tools=[refunds(paid), look])
    store = MemoryStore()
    waiting = agent.run_sync("Refund 7 and 8.", store=store, run_id="r")
    first, second = waiting.pending
    assert waiting.status == "waiting"
    assert [(one.tool, one.arguments) for one in waiting.pending] == [
        ("refund", {"order": "7", "cents": 100}),
        ("refund", {"order": "8", "cents": 9_000}),
    ]
    assert first.call_id != second.call_id
    assert [step.task for step in waiting.run.history if step.task == "tools@1[1]"] == ["tools@1[1]"]

    done = agent.resume_sync("r", {first.call_id: Approve(), second.call_id: Deny("too much")}, store=store)
    assert (done.output, paid) == ("done", [("7", 100)])
    assert [text for text, _ in last_results(model)][:2] == ["paid 100", "order 7 is late"]
    assert last_results(model)[2][1] is True
    assert "too much" in last_results(model)[2][0]
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("decision", "paid", "told"),
    [
        (Approve(arguments={"order": "7", "cents": 50}), [("7", 50)], "paid 50"),
        (True, [("7", 100)], "paid 100"),
        ("approve", [("7", 100)], "paid 100"),
        ({"verb": "approve"}, [("7", 100)], "paid 100"),
        (Answer(result={"paid": "by hand"}), [], '{"paid":"by hand"}'),
    ],
)
def test_a_decision_may_change_the_arguments_or_give_the_result(decision: Any, paid: Any, told: str) -> None:
    """2.2 G: approve, with other arguments, or answer in the tool's place."""
    made: list[tuple[str, int]] = []
    model = Scripted(call("refund", order="7", cents=100), say("done"))
    agent = Agent(model, tools=[refunds(made)])
    waiting = agent.run_sync("go", store=MemoryStore())
    agent.resume_sync(waiting, {waiting.pending[0].call_id: decision})
    assert (made, last_results(model)) == (paid, [(told, False)])


def test_changed_arguments_are_validated_like_the_models() -> None:
    made: list[tuple[str, int]] = []
    model = Scripted(call("refund", order="7", cents=100), say("done"))
    agent = Agent(model, tools=[refunds(made)])
    waiting = agent.run_sync("go", store=MemoryStore())
    agent.resume_sync(waiting, {waiting.pending[0].call_id: Approve(arguments={"order": "7", "cents": "many"})})
    assert made == []
    assert last_results(model)[0][1] is True


def test_an_abort_stops_the_run() -> None:
    model = Scripted(call("refund", order="7", cents=100))
    agent = Agent(model, tools=[refunds([])])
    waiting = agent.run_sync("go", store=MemoryStore())
    with pytest.raises(RunFailed, match="abort"):
        agent.resume_sync(waiting, {waiting.pending[0].call_id: Abort()})


def test_a_decision_about_no_open_call_changes_nothing() -> None:
    model = Scripted(call("refund", order="7", cents=100))
    agent = Agent(model, tools=[refunds([])])
    waiting = agent.run_sync("go", store=MemoryStore())
    with pytest.raises(AnswerError):
        agent.resume_sync(waiting, {"call_99": Approve()})
    assert agent.resume_sync(waiting).pending == waiting.pending


def test_code_decides_which_calls_need_a_person() -> None:
    """Complaint 34: a function of context and arguments; its reason is shown."""
    paid: list[tuple[str, int]] = []

    def is_big(ctx: Any, args: Any) -> str | bool:
        return "over 50 euros" if args["cents"] > 5_000 else False

    model = Scripted(TWO, say("done"))
    waiting = Agent(model, tools=[refunds(paid, approval=is_big), look]).run_sync("go", store=MemoryStore())
    assert paid == [("7", 100)]
    (pending,) = waiting.pending
    assert pending.arguments["order"] == "8"
    assert "over 50 euros" in pending.text


def test_an_approval_needs_a_store_that_it_can_be_resumed_from() -> None:
    with pytest.raises(FlowAgentError, match="no store was given"):
        Agent(Scripted(call("refund", order="7", cents=1)), tools=[refunds([])]).run_sync("go")


def test_an_approval_inside_an_agent_that_is_a_tool_shows_the_inner_call(tmp_path: Path) -> None:
    """Complaints 32 and 35: the inner call with its path, also after the run was read back from a file."""
    paid: list[tuple[str, int]] = []
    inner = Scripted(call("refund", order="7", cents=100), say("refunded"))
    outer = Scripted(call("cashier", task="Refund order 7."), say("It is paid back."))
    cashier = Agent(inner, name="cashier", description="Pays back.", tools=[refunds(paid)])
    desk = Agent(outer, name="desk", tools=[cashier])
    store = tmp_path / "runs.db"
    waiting = desk.run_sync("Refund 7.", store=store, run_id="r")
    (pending,) = waiting.pending
    assert (pending.tool, pending.arguments) == ("refund", {"order": "7", "cents": 100})
    assert pending.path == ("tools", "cashier", "tools")
    done = desk.resume_sync("r", {pending.call_id: Approve()}, store=store)
    assert (done.output, paid) == ("It is paid back.", [("7", 100)])
    assert (len(inner.requests), len(outer.requests)) == (2, 2)
    assert (done.usage.requests, done.usage.tool_calls) == (4, 2)


def test_an_external_tool_is_answered_from_outside() -> None:
    """C17: only declared; the run pauses with the call and goes on with the result."""

    @tool(external=True)
    def measure(place: str) -> float:
        """Measure the temperature."""
        raise AssertionError("never called here")

    model = Scripted(call("measure", place="Oslo"), say("cold"))
    agent = Agent(model, tools=[measure])
    waiting = agent.run_sync("How cold?", store=MemoryStore())
    assert (waiting.pending[0].tool, waiting.pending[0].arguments) == ("measure", {"place": "Oslo"})
    agent.resume_sync(waiting, {waiting.pending[0].call_id: -3.5})
    assert last_results(model) == [("-3.5", False)]
