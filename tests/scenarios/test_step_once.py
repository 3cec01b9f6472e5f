"""`ctx.once`: a call in the middle of a node that is never made twice without asking."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import SecretStr

from flowagent import END, START, Context, Graph, Retry, State, Update
from flowagent.errors import AnswerError, RunFailed
from flowagent.stores import MemoryStore, Store
from tests.scenarios import BY_AWAIT, Caller, Trail, problems

Ctx = Context[object, Trail]


class Bank:
    """Counts its payments, and may break."""

    def __init__(self, *, broken: bool = True) -> None:
        self.calls: list[int] = []
        self.broken = broken

    def pay(self, amount: int) -> str:
        self.calls.append(amount)
        if self.broken:
            raise ValueError("no answer")
        return f"receipt {len(self.calls)}"


def paying(bank: Bank, *, is_async: bool, retry: Retry | None = None, amounts: tuple[int, ...] = (5,)) -> Graph[Trail]:
    """A graph whose one node pays within."""
    graph = Graph("paying", Trail)
    options: Any = {} if retry is None else {"retry": retry}

    async def pay(state: Trail, ctx: Ctx) -> Update:
        return {"seen": [await ctx.once(f"pay {amount}", bank.pay, amount) for amount in amounts]}

    def pay_sync(state: Trail, ctx: Ctx) -> Update:
        return {"seen": [ctx.once_sync(f"pay {amount}", bank.pay, amount) for amount in amounts]}

    graph.node(pay if is_async else pay_sync, name="shop", **options)
    graph.chain(START, "shop", END)
    return graph


both = pytest.mark.parametrize("is_async", [True, False], ids=["async node", "sync node"])

QUESTION = (
    "step `pay 5` of `shop` must not be called twice, and a call of it failed (ValueError: no answer): answer "
    '"retry" if it may be called again, "abort", or {"result": ...} with what it would have returned'
)


@both
async def test_what_was_done_is_not_done_again(is_async: bool, caller: Caller, store: Store) -> None:
    """As with a step: the node is run again, the call is not made again."""
    bank = Bank(broken=False)
    graph = paying(bank, is_async=is_async, amounts=(5, 7))
    bank_pay = bank.pay

    def second_fails(amount: int) -> str:
        if amount == 7 and len(bank.calls) == 1:
            bank.calls.append(amount)
            raise ValueError("no answer")
        return bank_pay(amount)

    bank.pay = second_fails
    await caller.fails(graph, run_id="r", store=store)
    waiting = await caller.resume(graph, "r", store=store)
    run = await caller.resume(graph, "r", answers={waiting.questions[0].id: {"result": "found it"}}, store=store)
    assert (run.status, run.state.seen, bank.calls) == ("completed", ["receipt 1", "found it"], [5, 7])


@both
@pytest.mark.parametrize(
    ("answer", "seen", "calls"), [("retry", ["receipt 2"], [5, 5]), ({"result": "receipt 9"}, ["receipt 9"], [5])]
)
async def test_the_attempt_after_one_that_failed_asks(
    is_async: bool, answer: Any, seen: list[str], calls: list[int], caller: Caller, store: Store
) -> None:
    """The error is the node's; whoever goes on is asked before anything is called again."""
    bank = Bank()
    graph = paying(bank, is_async=is_async)
    failed = await caller.fails(graph, run_id="r", store=store)
    waiting = await caller.resume(graph, "r", store=store)
    assert problems(failed) == {"shop": "ValueError: no answer"}
    assert [(one.id, one.purpose, one.text) for one in waiting.questions] == [("shop?once:pay 5", "once", QUESTION)]
    bank.broken = False
    run = await caller.resume(graph, "r", answers={"shop?once:pay 5": answer}, store=store)
    assert (run.status, run.state.seen, bank.calls) == ("completed", seen, calls)


@both
async def test_a_retry_does_not_make_the_call_again(is_async: bool, caller: Caller, store: Store) -> None:
    """Whatever the node's `retry` allows: the second attempt asks."""
    bank = Bank()
    graph = paying(bank, is_async=is_async, retry=Retry(attempts=5, backoff=0))
    run = await caller.run(graph, run_id="r", store=store)
    assert (run.status, [one.id for one in run.questions], bank.calls) == ("waiting", ["shop?once:pay 5"], [5])


async def test_a_node_that_catches_the_error_cannot_call_again(caller: Caller, store: Store) -> None:
    """The same name in the same attempt: it is known that it was begun."""
    bank, graph = Bank(), Graph("paying", Trail)

    @graph.node
    async def shop(state: Trail, ctx: Ctx) -> Update:
        for _ in range(3):
            try:
                await ctx.once("pay", bank.pay, 5)
            except ValueError:
                continue
        return {}

    graph.chain(START, shop, END)
    run = await caller.run(graph, run_id="r", store=store)
    assert (run.status, bank.calls) == ("waiting", [5])


@both
async def test_an_answer_may_give_it_up(is_async: bool, caller: Caller, store: Store) -> None:
    """The node is told, and may do without; if it does not, it fails, and a resume does not call either."""
    bank = Bank()
    graph = paying(bank, is_async=is_async)
    await caller.fails(graph, run_id="r", store=store)
    await caller.resume(graph, "r", store=store)
    for answers in ({"shop?once:pay 5": "abort"}, {}):
        with pytest.raises(RunFailed, match="`pay 5` was aborted by the answer to what became of it"):
            await caller.resume(graph, "r", answers=answers, store=store)
    assert bank.calls == [5]


@pytest.mark.parametrize("answer", ["again", {"result": 7}, {"result": object()}, {"results": "x"}, None])
async def test_another_answer_is_refused(answer: Any, caller: Caller, store: Store) -> None:
    """What it would have returned has to be of the type that it returns; the question stays open."""
    bank = Bank()
    graph = paying(bank, is_async=True)
    await caller.fails(graph, run_id="r", store=store)
    await caller.resume(graph, "r", store=store)
    with pytest.raises(AnswerError, match=r"the answer to `shop\?once:pay 5`"):
        await caller.resume(graph, "r", answers={"shop?once:pay 5": answer}, store=store)
    assert [one.id for one in (await graph.load("r", store=store)).questions] == ["shop?once:pay 5"]


@pytest.mark.parametrize("durability", ["step", "fast", "exit"])
async def test_that_it_begins_is_stored_first(durability: Any, store: Store) -> None:
    """At every durability: whoever looks from within the call finds that it was begun."""
    graph, kinds = Graph("paying", Trail), list[str]()

    async def pay() -> None:
        kinds.extend([record.kind for record in await store.read("r")])

    @graph.node
    async def shop(state: Trail, ctx: Ctx) -> Update:
        await ctx.once("pay", pay)
        return {}

    graph.chain(START, shop, END)
    run = await graph.run(store=store, run_id="r", durability=durability)
    assert (run.status, kinds) == ("completed", ["started", "attempted"])


@pytest.mark.parametrize("how", ["dies", "is cancelled", "times out"])
async def test_what_was_cut_off_is_asked_about(how: str) -> None:
    """A death, a cancellation or a timeout in the middle of the call: nobody knows what became of it."""
    store, begun, calls = MemoryStore(), asyncio.Event(), list[str]()

    async def pay() -> str:
        calls.append("pay")
        begun.set()
        await asyncio.Event().wait()
        return "never"

    graph = Graph("paying", Trail)
    timeout: Any = {"timeout": 0.01} if how == "times out" else {}

    @graph.node(**timeout)
    async def shop(state: Trail, ctx: Ctx) -> Update:
        return {"seen": [await ctx.once("pay", pay)]}

    graph.chain(START, shop, END)
    call = asyncio.create_task(graph.run(store=store, run_id="r"))
    await begun.wait()
    if how == "dies":
        left = await store.read("r")
        store = MemoryStore()
        lease = await store.create("r", graph.name, left[:1])
        await store.append(lease, left[1:])
        await store.release(lease)
    if how != "times out":
        call.cancel()
    await asyncio.wait([call])
    waiting = await graph.resume("r", store=store)
    assert [one.text for one in waiting.questions] == [
        "step `pay` of `shop` must not be called twice, and a call of it was interrupted: answer "
        '"retry" if it may be called again, "abort", or {"result": ...} with what it would have returned'
    ]
    run = await graph.resume("r", answers={"shop?once:pay": {"result": "receipt"}}, store=store)
    assert (run.state.seen, calls) == (["receipt"], ["pay"])


async def test_starting_afresh_does_not_forget_what_was_begun(caller: Caller, store: Store) -> None:
    """`retry={task: "fresh"}` drops steps; what must not be done twice is asked about, even if it was done."""
    bank, graph = Bank(broken=False), Graph("paying", Trail)

    @graph.node
    async def shop(state: Trail, ctx: Ctx) -> Update:
        await ctx.once("pay", bank.pay, 5)
        raise ValueError("broken afterwards")

    graph.chain(START, shop, END)
    await caller.fails(graph, run_id="r", store=store)
    run = await caller.resume(graph, "r", retry={"shop": "fresh"}, store=store)
    again = await graph.load("r", store=store)
    text = "step `pay` of `shop` must not be called twice, and a call of it was made before: "
    assert [one.text.startswith(text) for one in (*run.questions, *again.questions)] == [True, True]
    assert bank.calls == [5]


async def test_other_arguments_are_an_error(caller: Caller, store: Store) -> None:
    """A name stands for one call; what it was called with is compared before it is asked about."""
    bank, graph = Bank(), Graph("paying", Trail)

    @graph.node
    async def shop(state: Trail, ctx: Ctx) -> Update:
        await ctx.once("pay", bank.pay, len(bank.calls))
        return {}

    graph.chain(START, shop, END)
    await caller.fails(graph, run_id="r", store=store)
    with pytest.raises(RunFailed, match="used the step `pay` before with other arguments"):
        await caller.resume(graph, "r", store=store)
    assert bank.calls == [0]


class Receipt(State):
    """What a payment gives."""

    number: int


async def test_a_model_comes_back_as_a_model(caller: Caller, store: Store) -> None:
    """A result that was given as an answer is validated by the type that the function returns."""
    graph, got = Graph("paying", Trail), list[object]()

    def pay() -> Receipt:
        raise ValueError("no answer")

    @graph.node
    async def shop(state: Trail, ctx: Ctx) -> Update:
        got.append(await ctx.once("pay", pay))
        return {}

    graph.chain(START, shop, END)
    await caller.fails(graph, run_id="r", store=store)
    await caller.resume(graph, "r", store=store)
    await caller.resume(graph, "r", answers={"shop?once:pay": {"result": {"number": 7}}}, store=store)
    assert got == [Receipt(number=7)]


async def test_without_a_store_that_is_kept_it_says_so(caller: Caller) -> None:
    """Nobody could ever answer: the second attempt fails, and does not call."""
    bank = Bank()
    graph = paying(bank, is_async=True, retry=Retry(attempts=2, backoff=0))
    error = await caller.failure(graph)
    assert "could never be answered" in str(error)
    assert bank.calls == [5]


async def test_starting_afresh_asks_about_what_failed(caller: Caller, store: Store) -> None:
    """Dropping the steps of a task drops neither that a call was begun nor how it ended."""
    bank = Bank()
    graph = paying(bank, is_async=True)
    await caller.fails(graph, run_id="r", store=store)
    run = await caller.resume(graph, "r", retry={"shop": "fresh"}, store=store)
    assert ([one.text for one in run.questions], bank.calls) == ([QUESTION], [5])


async def test_a_secret_result_is_given_and_not_shown() -> None:
    """What a call would have returned is sealed in the journal like what it does return."""
    graph, got = Graph("keys", Trail), list[object]()

    def make() -> SecretStr:
        raise ValueError("no answer")

    @graph.node
    async def shop(state: Trail, ctx: Ctx) -> Update:
        got.append(await ctx.once("make", make))
        return {}

    graph.chain(START, shop, END)
    store = MemoryStore()
    await BY_AWAIT.fails(graph, run_id="r", store=store)
    await graph.resume("r", store=store)
    with pytest.raises(AnswerError, match=r"the answer to `shop\?once:make` does not fit: \*+ \(its `type`\)"):
        await graph.resume("r", answers={"shop?once:make": {"result": 7}}, store=store)
    run = await graph.resume("r", answers={"shop?once:make": {"result": "hunter2"}}, store=store)
    answered = next(record.data for record in run.records if record.kind == "answered")
    assert (got, b'{"result":{"$secret":"hunter2"}}' in answered) == ([SecretStr("hunter2")], True)
    assert "hunter2" not in str(run.history)
