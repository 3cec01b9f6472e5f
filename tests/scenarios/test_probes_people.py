"""Probes 53 to 61: questions to people, and what an answer sets in motion."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from flowagent import END, START, Context, Graph, State, Update, append
from flowagent.errors import AnswerError, GraphError, RunExists
from flowagent.stores import MemoryStore, Store
from tests.scenarios import Caller, Walk, problems, tasks


class Form(State):
    name: str = ""
    value: Any = None
    answers: Annotated[list[Any], append] = []


def asking(*, is_async: bool, calls: list[str]) -> Graph[Form]:
    """A node that does something once, asks twice, and does something in between."""
    graph = Graph("asking", Form)

    def note(what: str) -> str:
        calls.append(what)
        return what

    if is_async:

        @graph.node
        async def talk(form: Form, ctx: Context[object, Form]) -> Update:
            await ctx.step("before", note, "before")
            first = await ctx.ask("first", "First?")
            await ctx.step("between", note, "between")
            second = await ctx.ask("second", "Second?", int)
            return {"answers": [first, second]}
    else:

        @graph.node(name="talk")
        def talk_sync(form: Form, ctx: Context[object, Form]) -> Update:
            ctx.step_sync("before", note, "before")
            first = ctx.ask_sync("first", "First?")
            ctx.step_sync("between", note, "between")
            second = ctx.ask_sync("second", "Second?", int)
            return {"answers": [first, second]}

    graph.chain(START, "talk", END)
    return graph


@pytest.mark.parametrize("is_async", [True, False], ids=["async node", "sync node"])
async def test_probe_53_what_was_done_before_a_question_is_done_once(
    is_async: bool, caller: Caller, store: Store
) -> None:
    """Two questions in one node: what went through `ctx.step` is replayed, and each question is asked once."""
    calls: list[str] = []
    graph = asking(is_async=is_async, calls=calls)
    run = await caller.run(graph, run_id="r", store=store)
    assert [(question.id, question.text) for question in run.questions] == [("talk?first", "First?")]
    run = await caller.resume(graph, "r", answers={"talk?first": "one"}, store=store)
    assert [(question.id, question.text) for question in run.questions] == [("talk?second", "Second?")]
    run = await caller.resume(graph, "r", answers={"talk?second": 2}, store=store)
    assert (run.status, run.state, calls) == ("completed", Form(answers=["one", 2]), ["before", "between"])


async def test_probe_53_a_gate_asks_without_running_any_code_twice(caller: Caller, store: Store) -> None:
    """Two gates in a line with a node before and between: each node is called once in all."""
    walk = Walk("START a ?first b ?second c END")
    walk.graph.gate("first", question="Seen {seen}?", schema=bool)
    walk.graph.gate("second", question="And now?", schema=bool)
    run = await caller.run(walk.graph, run_id="r", store=store)
    assert [question.text for question in run.questions] == ["Seen ['a']?"]
    run = await caller.resume(walk.graph, "r", answers={"first": True}, store=store)
    run = await caller.resume(walk.graph, "r", answers={"second": False}, store=store)
    assert (run.status, walk.calls) == ("completed", ["a", "b", "c"])


@pytest.mark.parametrize("caught", [Exception, BaseException])
@pytest.mark.parametrize("is_async", [True, False], ids=["async node", "sync node"])
async def test_probe_54_a_question_pauses_whatever_the_node_catches(
    caught: type[BaseException], is_async: bool, caller: Caller, store: Store
) -> None:
    """`try/except` around a question swallows nothing: what the node returns then does not count."""
    graph = Graph("catching", Form)

    if is_async:

        @graph.node
        async def talk(form: Form, ctx: Context[object, Form]) -> Update:
            try:
                return {"answers": [await ctx.ask("name", "Who?")]}
            except caught:
                return {"answers": ["swallowed"]}
    else:

        @graph.node(name="talk")
        def talk_sync(form: Form, ctx: Context[object, Form]) -> Update:
            try:
                return {"answers": [ctx.ask_sync("name", "Who?")]}
            except caught:
                return {"answers": ["swallowed"]}

    graph.chain(START, "talk", END)
    run = await caller.run(graph, run_id="r", store=store)
    assert (run.status, [question.id for question in run.questions], run.state) == ("waiting", ["talk?name"], Form())
    run = await caller.resume(graph, "r", answers={"talk?name": "Ada"}, store=store)
    assert (run.status, run.state) == ("completed", Form(answers=["Ada"]))


async def test_probe_55_of_two_open_questions_one_can_be_answered(caller: Caller, store: Store) -> None:
    """Answered by id, its node completes; the other stays pending and is not called."""
    graph = Graph("two", Form)
    calls: list[str] = []

    def asker(name: str) -> None:
        async def ask(form: Form, ctx: Context[object, Form]) -> Update:
            calls.append(name)
            return {"answers": [await ctx.ask("q", f"{name}?")]}

        graph.node(ask, name=name)
        graph.chain(START, name, END)

    asker("left")
    asker("right")
    run = await caller.run(graph, run_id="r", store=store)
    assert [question.id for question in run.questions] == ["left?q", "right?q"]
    run = await caller.resume(graph, "r", answers={"right?q": "R"}, store=store)
    assert (run.status, [question.id for question in run.questions]) == ("waiting", ["left?q"])
    assert (run.state, sorted(calls), tasks(run)) == (Form(answers=["R"]), ["left", "right", "right"], ["right"])
    run = await caller.resume(graph, "r", answers={"left?q": "L"}, store=store)
    assert (run.status, run.state) == ("completed", Form(answers=["L", "R"]))


def gated() -> Walk:
    """A gate that wants a number, behind a node."""
    walk = Walk("START a ?gate END", name="gated")
    walk.graph.gate("gate", question="How many?", schema=int)
    return walk


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"nobody": 1}, "there is no open question `nobody`; open are: `gate`"),
        ({"a": 1}, "there is no open question `a`; open are: `gate`"),
        ({"gate": ""}, "the answer to `gate` does not fit"),
        ({"gate": None}, "the answer to `gate` does not fit"),
        ({"gate": "many"}, "the answer to `gate` does not fit"),
        ({"": 1}, "there is no open question ``"),
        ({"gate": 1, "nobody": 2}, "there is no open question `nobody`"),
    ],
    ids=repr,
)
async def test_probe_56_an_answer_that_fits_no_question_changes_nothing(
    answers: dict[str, Any], told: str, caller: Caller, store: Store
) -> None:
    """Unknown, empty, None or of the wrong type: an error that names what is open, and the run waits as before."""
    walk = gated()
    await caller.run(walk.graph, run_id="r", store=store)
    before = await store.info("r"), await store.read("r")
    with pytest.raises(AnswerError) as raised:
        await caller.resume(walk.graph, "r", answers=answers, store=store)
    assert told in str(raised.value)
    assert (await store.info("r"), await store.read("r")) == before
    assert (await caller.resume(walk.graph, "r", answers={"gate": 3}, store=store)).status == "completed"


async def test_probe_56_an_answer_that_comes_again_or_to_a_finished_run_is_refused(
    caller: Caller, store: Store
) -> None:
    """An answer is taken once; a stale one, and one to a run that asks nothing any more, change nothing."""
    walk = Walk("START ?one ?two END", name="stale")
    walk.graph.gate("one", question="1?", schema=int)
    walk.graph.gate("two", question="2?", schema=int)
    await caller.run(walk.graph, run_id="r", store=store)
    await caller.resume(walk.graph, "r", answers={"one": 1}, store=store)
    with pytest.raises(AnswerError, match="there is no open question `one`; open are: `two`"):
        await caller.resume(walk.graph, "r", answers={"one": 1}, store=store)
    await caller.resume(walk.graph, "r", answers={"two": 2}, store=store)
    before = await store.info("r"), await store.read("r")
    with pytest.raises(AnswerError, match=r"run `r`.* is completed; it asks nothing any more"):
        await caller.resume(walk.graph, "r", answers={"two": 2}, store=store)
    assert (await store.info("r"), await store.read("r")) == before


async def test_probe_56_a_resume_without_answers_leaves_the_questions_open(caller: Caller, store: Store) -> None:
    """Nothing was added, so nothing is executed: the run waits as it did."""
    walk = gated()
    first = await caller.run(walk.graph, run_id="r", store=store)
    again = await caller.resume(walk.graph, "r", answers={}, store=store)
    assert (again.status, again.questions, again.replayed, walk.calls) == ("waiting", first.questions, True, ["a"])


@pytest.mark.parametrize(
    ("schema", "answer"),
    [(int, 0), (str, ""), (bool, False), (list[int], []), (dict[str, int], {}), (int | None, None), (float, 0.0)],
    ids=repr,
)
@pytest.mark.parametrize("by", ["gate", "node"])
async def test_probe_57_a_falsy_answer_is_an_answer(
    by: str, schema: Any, answer: Any, caller: Caller, store: Store
) -> None:
    """0, "", False, an empty list and, where the schema has it, None: accepted, and handed on as they are."""
    graph = Graph("falsy", Form)

    if by == "gate":
        graph.gate("ask", question="?", schema=schema, into="value")
    else:

        @graph.node
        async def ask(form: Form, ctx: Context[object, Form]) -> Update:
            return {"value": await ctx.ask("q", "?", schema)}

    graph.chain(START, "ask", END)
    run = await caller.run(graph, Form(value="unanswered"), run_id="r", store=store)
    run = await caller.resume(graph, "r", answers={run.questions[0].id: answer}, store=store)
    assert (run.status, repr(run.state.value)) == ("completed", repr(answer))


async def test_probe_58_one_resume_settles_a_question_and_a_failure_beside_it(caller: Caller, store: Store) -> None:
    """The run is failed and carries both; an answer and a retry are given together."""
    walk = Walk("START ?ask after END", "START bad END")
    walk.graph.gate("ask", question="?", schema=str)
    walk.broken = {"bad"}
    run = await caller.fails(walk.graph, run_id="r", store=store)
    assert (list(problems(run)), [question.id for question in run.questions]) == (["bad"], ["ask"])
    walk.broken.clear()
    run = await caller.resume(walk.graph, "r", answers={"ask": "yes"}, store=store)
    assert (run.status, run.state.seen, sorted(walk.calls)) == ("completed", ["after", "bad"], ["after", "bad", "bad"])


async def test_probe_59_new_input_while_a_question_is_open_is_refused(caller: Caller, store: Store) -> None:
    """The same call again finds the run waiting; another input under its id is an error, and nothing is lost."""
    graph = Graph("form", Form)
    graph.gate("ask", question="Well, {name}?", into="value", schema=str)
    graph.chain(START, "ask", END)
    await caller.run(graph, Form(name="Ada"), run_id="r", store=store)
    before = await store.info("r"), await store.read("r")
    again = await caller.run(graph, Form(name="Ada"), run_id="r", store=store)
    assert (again.status, again.replayed, again.questions[0].text) == ("waiting", True, "Well, Ada?")
    with pytest.raises(RunExists, match=r"run `r` in .* was started with another input"):
        await caller.run(graph, Form(name="Bob"), run_id="r", store=store)
    assert (await store.info("r"), await store.read("r")) == before


async def test_probe_60_a_gate_without_a_store_is_refused_when_the_run_starts(caller: Caller) -> None:
    """Nobody could answer: nothing is run, and the error says what to pass. A store in memory, given, is enough."""
    walk = gated()
    with pytest.raises(
        GraphError, match=r"gate `gate` asks questions.*store='runs.db', or an explicit MemoryStore\(\)"
    ):
        await caller.run(walk.graph)
    assert walk.calls == []
    run = await caller.run(walk.graph, store=MemoryStore())
    assert (await caller.resume(walk.graph, run, answers={"gate": 1})).status == "completed"


@pytest.mark.parametrize("is_async", [True, False], ids=["async node", "sync node"])
async def test_probe_60_a_question_of_a_node_without_a_store_is_refused_at_the_call(
    is_async: bool, caller: Caller
) -> None:
    """The graph cannot be seen to ask beforehand, so it is the call that fails."""
    failed = await caller.fails(asking(is_async=is_async, calls=[]))
    assert "store='runs.db', or an explicit MemoryStore()" in problems(failed)["talk"]


@pytest.mark.parametrize("is_async", [True, False], ids=["async node", "sync node"])
async def test_probe_61_a_node_that_asks_until_it_likes_the_answer(
    is_async: bool, caller: Caller, store: Store
) -> None:
    """Each answer is consumed once, no resume is wasted, and what was done before the loop is done once."""
    graph = Graph("until", Form)
    done: list[str] = []

    def prepare() -> None:
        done.append("prepared")

    if is_async:

        @graph.node
        async def until(form: Form, ctx: Context[object, Form]) -> Update:
            await ctx.step("prepare", prepare)
            number, tried = 0, list[int]()
            while number < 3:
                number = await ctx.ask(f"try {len(tried)}", f"At least 3, not {number}", int)
                tried.append(number)
            return {"answers": tried}
    else:

        @graph.node(name="until")
        def until_sync(form: Form, ctx: Context[object, Form]) -> Update:
            ctx.step_sync("prepare", prepare)
            number, tried = 0, list[int]()
            while number < 3:
                number = ctx.ask_sync(f"try {len(tried)}", f"At least 3, not {number}", int)
                tried.append(number)
            return {"answers": tried}

    graph.chain(START, "until", END)
    run = await caller.run(graph, run_id="r", store=store)
    asked: list[str] = []
    for answer in (1, 2, 3):
        (question,) = run.questions
        asked.append(question.text)
        run = await caller.resume(graph, "r", answers={question.id: answer}, store=store)
    assert asked == ["At least 3, not 0", "At least 3, not 1", "At least 3, not 2"]
    assert (run.status, run.state, done) == ("completed", Form(answers=[1, 2, 3]), ["prepared"])


# -- questions and failures ----------------------------------------------------------------------------------------


async def test_a_node_that_failed_and_asks_when_it_is_run_again_only_waits(caller: Caller, store: Store) -> None:
    """Its failure is of the past, in each process that reads the run; the answer completes it."""
    graph = Graph("late", Form)
    broken = [True]

    @graph.node
    async def talk(form: Form, ctx: Context[object, Form]) -> Update:
        if broken:
            raise ValueError("not yet")
        return {"answers": [await ctx.ask("name", "Who?")]}

    @graph.node
    def after(form: Form) -> Update:
        return {"name": "after"}

    graph.chain(START, talk, after, END)
    assert (await caller.fails(graph, run_id="r", store=store)).status == "failed"
    broken.clear()
    await caller.resume(graph, "r", store=store)
    found = await graph.load("r", store=store)
    assert (found.status, found.errors, [one.id for one in found.questions]) == ("waiting", (), ["talk?name"])
    run = await caller.resume(graph, "r", answers={"talk?name": "Ada"}, store=store)
    assert (run.status, run.state) == ("completed", Form(answers=["Ada"], name="after"))
