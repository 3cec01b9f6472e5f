"""Agents as nodes and maps of graphs, and models as routers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from flowagent import START, Graph, Limits, State, append
from flowagent.agents import Agent, Ending, choose
from flowagent.errors import GraphError, RunFailed
from flowagent.models.messages import Message
from flowagent.models.scripted import FunctionModel, Scripted
from flowagent.models.steps import call, fail, say


class Verdict(BaseModel):
    ok: bool
    advice: str = ""


class Doc(State):
    topic: str
    draft: str = ""
    verdict: Verdict = Verdict(ok=False)
    report: Ending | None = None
    talk: Annotated[list[Message], append] = []


def test_an_agent_is_a_node_that_is_asked_with_the_state_and_writes_its_answer() -> None:
    """4.3: placeholders are filled from the state; the answer goes into a field."""
    model = Scripted(say("The sea rises and falls."))
    g = Graph("doc", Doc)
    g.node(Agent(model, name="writer"), prompt="Write about {topic}.", into="draft")
    g.chain(START, "writer", "END")
    run = g.run_sync(Doc(topic="tides"))
    assert run.state.draft == "The sea rises and falls."
    assert model.requests[0].messages[0].text == "Write about tides."
    assert [step.task for step in run.history] == ["writer", "writer/model@1", "writer/output@1", "writer"]


def test_a_writer_and_a_critic_go_round_until_the_critic_is_content() -> None:
    """4.7: a typed verdict decides; its advice reaches the next round."""
    writer = Scripted(say("first"), say("second"))
    critic = Scripted(say({"ok": False, "advice": "shorter"}), say({"ok": True}))
    g = Graph("pair", Doc)
    g.node(Agent(writer, name="writer"), prompt="{topic}. Advice: {verdict.advice}", into="draft")
    g.node(Agent(critic, name="critic", output=Verdict), prompt="Judge: {draft}", into="verdict")

    @g.router
    def content(doc: Doc) -> Literal["writer", "END"]:
        return "END" if doc.verdict.ok else "writer"

    g.chain(START, "writer", "critic", content)
    run = g.run_sync(Doc(topic="tides"))
    assert (run.state.draft, run.state.verdict.ok) == ("second", True)
    assert writer.requests[1].messages[0].text == "tides. Advice: shorter"
    assert run.usage.requests == 4


def test_all_that_does_not_fit_the_state_is_told_when_the_graph_is_checked() -> None:
    """Placeholders, fields, and options that there are not."""
    g = Graph("bad", Doc)
    g.node(Agent(Scripted(), name="writer"), prompt="About {topci}", into="darft")
    g.chain(START, "writer", "END")
    with pytest.raises(GraphError) as caught:
        g.check()
    assert any(
        "placeholder `{topci}` names no field; did you mean `{topic}`?" in fault for fault in caught.value.faults
    )
    assert any("into='darft'" in fault for fault in caught.value.faults)


def test_an_agent_that_ends_without_an_answer_fails_its_node() -> None:
    g = Graph("doc", Doc)
    g.node(Agent(Scripted(say("No.", finish="refused")), name="writer"), prompt="{topic}", into="draft")
    g.chain(START, "writer", "END")
    with pytest.raises(RunFailed, match=r"agent `writer` ended without an answer \(refused\)"):
        g.run_sync(Doc(topic="x"))


def test_with_a_report_the_graph_can_branch_on_how_it_ended() -> None:
    """FA-066: routers can branch on a refusal."""
    g = Graph("doc", Doc)
    g.node(
        Agent(Scripted(say("No.", finish="refused")), name="writer"), prompt="{topic}", into="draft", report="report"
    )

    @g.router(to=["apologise", "END"])
    def ended(doc: Doc) -> str:
        return "END" if doc.report is not None and doc.report.reason == "answer" else "apologise"

    @g.node
    def apologise(doc: Doc) -> dict[str, object]:
        assert doc.report is not None
        return {"draft": f"Sorry: {doc.report.text}"}

    g.chain(START, "writer", ended)
    g.chain(apologise, "END")
    assert g.run_sync(Doc(topic="x")).state.draft == "Sorry: No."


def test_a_conversation_can_live_in_the_state() -> None:
    """`messages=`: what was said before is known, what is said is added."""
    model = Scripted(say("Hello Ann."), say("You are Ann."))
    g = Graph("chat", Doc)
    g.node(Agent(model, name="first"), prompt="I am {topic}.", messages="talk")
    g.node(Agent(model, name="second"), prompt="Who am I?", into="draft", messages="talk")
    g.chain(START, "first", "second", "END")
    run = g.run_sync(Doc(topic="Ann"))
    assert run.state.draft == "You are Ann."
    assert [one.text for one in run.state.talk] == ["I am Ann.", "Hello Ann.", "Who am I?", "You are Ann."]
    assert [one.text for one in model.requests[1].messages] == ["I am Ann.", "Hello Ann.", "Who am I?"]


class Survey(State):
    urls: list[str]
    notes: Annotated[list[str], append] = []
    report: str = ""


def test_a_map_asks_about_parts_of_its_items() -> None:
    """What items are is known from the field; what they do not have is told when the graph is made."""

    class Found(State):
        verdicts: list[Verdict] = [Verdict(ok=True, advice="cut"), Verdict(ok=True, advice="add")]
        notes: Annotated[list[str], append] = []

    reader = FunctionModel(lambda request: say(request.messages[0].text.upper()))
    g = Graph("found", Found)
    g.map(Agent(reader, name="read"), over="verdicts", into="notes", prompt="Do: {item.advice}")
    g.chain(START, "read", "END")
    assert g.run_sync(Found()).state.notes == ["DO: CUT", "DO: ADD"]
    wrong = Graph("wrong", Found)
    wrong.map(Agent(reader, name="read"), over="verdicts", into="notes", prompt="Do: {item.advise}")
    wrong.chain(START, "read", "END")
    with pytest.raises(GraphError, match="`Verdict` has no field `advise`; did you mean"):
        wrong.check()


def test_an_agent_maps_over_a_field_in_the_order_of_its_items() -> None:
    """4.5: map-reduce; results in input order, however they finish."""
    reader = FunctionModel(lambda request: say(request.messages[0].text.removeprefix("Summarise ")))
    editor = FunctionModel(lambda request: say(request.messages[0].text))
    g = Graph("survey", Survey)
    g.map(Agent(reader, name="read"), over="urls", into="notes", prompt="Summarise {item}", at_most=2)
    g.node(Agent(editor, name="merge"), prompt="Merge {notes}", into="report")
    g.chain(START, "read", "merge", "END")
    run = g.run_sync(Survey(urls=["a", "b", "c"]))
    assert run.state.notes == ["a", "b", "c"]
    assert run.state.report == 'Merge [\n  "a",\n  "b",\n  "c"\n]'
    assert run.usage.requests == 4


DESKS = {"billing": "invoices, refunds", "tech": "errors, bugs"}


def desk_graph(router: Any) -> Graph[Doc, Any]:
    g = Graph("desks", Doc)
    g.router(router)
    for name in router.targets:

        def work(doc: Doc, name: str = name) -> dict[str, object]:
            return {"draft": name}

        g.node(work, name=name)
        g.chain(name, "END")
    g.chain(START, "choose")
    return g


@pytest.mark.parametrize("mode", ["native", "tool", "prompted"])
def test_a_model_chooses_the_way(mode: Any) -> None:
    """4.4: choices are an enum in the schema; the choice is a recorded step."""
    step = call("final_answer", answer="tech") if mode == "tool" else say({"answer": "tech"})
    model = Scripted(step)
    router = choose(model, prompt="Which desk?\n{topic}", choices=DESKS, output_mode=mode)
    run = desk_graph(router).run_sync(Doc(topic="it crashed"))
    assert run.state.draft == "tech"
    assert "- billing: invoices, refunds\n- tech: errors, bugs" in model.requests[0].system_text
    assert model.requests[0].messages[0].text == "Which desk?\nit crashed"
    assert run.usage.requests == 1


@pytest.mark.parametrize(
    "steps",
    [
        [say("I will not say.", finish="refused")],
        [say("the kitchen"), say("still the kitchen")],
    ],
    ids=["refused", "invalid"],
)
def test_a_refusal_or_an_invalid_choice_takes_the_other_way(steps: Any) -> None:
    """4.4: `otherwise`."""
    router = choose(Scripted(*steps), prompt="{topic}", choices=DESKS, otherwise="human")
    assert desk_graph(router).run_sync(Doc(topic="x")).state.draft == "human"


@pytest.mark.parametrize("text", ["tech", " tech\n", "`tech`", "Tech? No: billing"])
def test_a_name_alone_is_a_choice_too(text: str) -> None:
    """The model is asked to answer with a name; one that does so without JSON has answered."""
    router = choose(Scripted(say(text)), prompt="{topic}", choices=DESKS, otherwise="billing", retries=0)
    assert desk_graph(router).run_sync(Doc(topic="x")).state.draft == ("tech" if "No" not in text else "billing")


def test_without_another_way_an_invalid_choice_is_an_error() -> None:
    router = choose(Scripted(say("the kitchen"), say("no")), prompt="{topic}", choices=["billing", "tech"])
    with pytest.raises(RunFailed, match="the model chose none of `billing`, `tech`"):
        desk_graph(router).run_sync(Doc(topic="x"))


def test_a_choice_that_no_node_bears_is_a_fault() -> None:
    """4.4: building fails if a label has no node; so does a placeholder that is no field."""
    g = Graph("desks", Doc)
    g.router(choose(Scripted(), prompt="{topci}", choices=["billing"]))
    g.chain(START, "choose")
    with pytest.raises(GraphError) as caught:
        g.check()
    assert any("billing" in fault for fault in caught.value.faults)
    assert any("{topci}" in fault for fault in caught.value.faults)


def test_a_resumed_run_goes_the_chosen_way_without_asking_again(tmp_path: Path) -> None:
    """P10: routing is its own recorded step."""
    model = Scripted(say({"answer": "tech"}))
    writer = Scripted(fail("server"), say("done"))
    g = Graph("desks", Doc)
    g.router(choose(model, prompt="{topic}", choices=["tech"]))
    g.node(Agent(writer, name="tech"), prompt="{topic}", into="draft")
    g.chain(START, "choose")
    g.chain("tech", "END")
    with pytest.raises(RunFailed):
        g.run_sync(Doc(topic="x"), store=tmp_path / "r.db", run_id="r")
    assert g.resume_sync("r", store=tmp_path / "r.db").state.draft == "done"
    model.assert_used_up()


def test_limits_of_the_run_hold_for_agents_in_it() -> None:
    """One tree: a run's limit stops an agent inside it, and names the node."""
    g = Graph("doc", Doc)
    looping = FunctionModel(lambda request: call("nothing"))
    g.node(Agent(looping, name="writer", tools=[_nothing], tool_errors=99), prompt="{topic}", into="draft")
    g.chain(START, "writer", "END")
    run = g.run_sync(Doc(topic="x"), limits=Limits(requests=3))
    assert (run.status, run.usage.requests) == ("limit", 3)
    assert "model" in run.reason


def _nothing() -> str:
    """Do nothing."""
    return "nothing"
