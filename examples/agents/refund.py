"""A refund that a person must approve: the run stops at the call, in a file, and goes on when the answer is there.

    python -m examples.agents.refund                 asks in the terminal; Ctrl-D leaves it waiting
    python -m examples.agents.refund                 the same again goes on: nothing is asked or paid twice
    python -m examples.agents.refund --ticket 22     49 EUR: below the limit, nobody is asked
    python -m examples.agents.refund --ticket 18     says no by itself: no customer of ours

Code decides which calls need a person, not the model: `approval=` looks at the arguments. What the person sees is the
call as it will run. A run that waits costs nothing, and may be answered in another process, a week later.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from examples.agents.model import MODEL, real_or
from examples.triage import checks
from examples.triage.desk import Desk
from flowagent import Context
from flowagent.agents import Agent, AgentResult, Pending
from flowagent.models import Model, ModelRequest
from flowagent.testing import FunctionModel, Step, call
from flowagent.tools import Approve, Deny, ToolContext, tool

WAITING: Final = 3
"""The exit code of a command that leaves a run waiting for an answer, as that of `flowagent`."""


def customer(address: str, ctx: ToolContext[Desk]) -> dict[str, str]:
    """Look a customer up in the customer list.

    Args:
        address: the customer's e-mail address.
    """
    return checks.entitlement_of(address, ctx.deps.customer_list, ctx.deps.today).model_dump()


def above_limit(ctx: Context[Desk], arguments: Mapping[str, Any]) -> str | bool:
    """Whether a person must be asked, and the reason that the person is told."""
    limit: Decimal = ctx.deps.limit
    return f"above {limit} EUR" if Decimal(arguments["amount"]) > limit else False


@tool(approval=above_limit, once=True)
def refund(name: str, amount: Decimal, ctx: ToolContext[Desk]) -> str:
    """Pay money back to a customer.

    Args:
        name: who gets it.
        amount: how many euros.
    """
    paid = ctx.deps.refund(amount, name, ctx.key)
    return f"paid {amount} EUR to {name}" if paid else f"{amount} EUR were paid to {name} already"


clerk = Agent(
    MODEL,
    name="clerk",
    deps=Desk,
    role="a clerk of the billing desk",
    instructions=(
        "Look the sender up. Refund only customers whose contract is covered, and only what they ask for.",
        "Then say in one sentence what was done, or why nothing was.",
    ),
    tools=[customer, refund],
)


def decided(pending: Pending, ask: Callable[[str], str] = input) -> Approve | Deny:
    """What a person says to a call.

    Raises:
        EOFError: nothing.
    """
    while True:
        match ask(f"{pending.text} [y/n] ").strip().lower():
            case "y" | "yes":
                return Approve()
            case "n" | "no":
                return Deny("a person at the desk said no")
            case _:
                pass


# -- without a model -------------------------------------------------------------------------------------------------


def script(address: str, amount: Decimal | None) -> Model:
    """Looks the sender up, refunds what is asked for if that is right, and says what came of it.

    It goes by the conversation and not by a list of answers, for the next process that goes on with the run starts at
    the place where this one stopped.
    """

    def answer(request: ModelRequest) -> Step:
        match request.tool_results:
            case {"refund": done}:
                return f"This is what came of it: {done}."
            case {"customer": {"standing": "covered", "name": name}} if amount is not None:
                return call("refund", name=name, amount=str(amount))
            case {"customer": known}:
                return f"Nothing was refunded: the contract of the sender is {known['standing']}."
            case _:
                return call("customer", address=address)

    return FunctionModel(answer)


# -- the command -----------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None, ask: Callable[[str], str] = input) -> int:
    """Starts the run or goes on with it, and asks what it wants to know."""
    parser = argparse.ArgumentParser(prog="python -m examples.agents.refund", description="A refund with approval.")
    parser.add_argument("--ticket", default="08", metavar="NN", help="the number of a ticket that wants money back")
    parser.add_argument("--out", type=Path, default=Path(".flowagent/refund"), metavar="DIR", help="where results go")
    args = parser.parse_args(argv)
    desk = Desk(out=args.out)
    (file,) = [name for name in desk.names() if name.startswith(args.ticket)]
    message = desk.read(file)
    store, run_id = args.out / "runs.db", f"refund-{args.ticket}"
    args.out.mkdir(parents=True, exist_ok=True)
    with real_or(script(message.address, checks.refund_wanted(message))):
        prompt = f"From: {message.name} <{message.address}>\n{message.text}"
        result: AgentResult[str] = clerk.run_sync(prompt, store=store, run_id=run_id, deps=desk)
        while result.pending:
            try:
                decisions = {one.call_id: decided(one, ask) for one in result.pending}
            except EOFError:
                print(f"\nno answer: run `{run_id}` waits in {store}; the same command asks again")
                return WAITING
            result = clerk.resume_sync(run_id, decisions, store=store, deps=desk)
    print(result.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
