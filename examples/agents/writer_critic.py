"""A writer and a critic go round, a typed verdict decides, and the rounds are bounded.

    python -m examples.agents.writer_critic                   a reply to the angriest ticket
    python -m examples.agents.writer_critic --ticket 18 --rounds 2 --draw rounds.svg

The critic's answer is a `Verdict`: what a router looks at is a field and not a word in a text. After the last round the
draft with the most points is taken, not the last one, and the output says so.

    START -> write -> judge -> keep_best -> is_done -> write | END
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from examples.agents.model import MODEL, real_or
from examples.triage.desk import Desk
from flowagent import START, Graph, State, Update, append
from flowagent.agents import Agent
from flowagent.testing import Scripted, say


class Verdict(BaseModel):
    """What the critic thinks of a draft."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ok: bool = Field(description="whether it can be sent as it is")
    points: int = Field(ge=0, le=10, description="how good it is, 10 is best")
    advice: list[str] = Field(description="what to change, the most important first; empty if nothing")


class Reply(State):
    """A reply on its way."""

    ticket: str
    rounds: int
    draft: str = ""
    verdict: Verdict = Verdict(ok=False, points=0, advice=[])
    points: Annotated[list[int], append] = []
    best: str = ""
    best_points: int = -1


writer = Agent(
    MODEL,
    name="write",
    role="the author of a support desk's replies",
    instructions=(
        "Write the reply to the ticket, in at most six sentences.",
        "If there is an earlier draft, follow the advice and keep what was not criticised.",
    ),
    settings={"max_tokens": 600},
)
critic = Agent(
    MODEL,
    name="judge",
    role="an editor who is hard to please",
    instructions=(
        "Judge the reply by these rules: it names the customer and the faults that the customer reports; it promises "
        "neither money nor a date; it says who does what next; it does not shout.",
    ),
    output=Verdict,
)

reply = Graph("reply", Reply)
reply.node(writer, prompt="Ticket:\n{ticket}\n\nEarlier draft:\n{draft}\n\nAdvice:\n{verdict.advice}", into="draft")
reply.node(critic, prompt="Ticket:\n{ticket}\n\nReply:\n{draft}", into="verdict")


@reply.node
def keep_best(r: Reply) -> Update:
    """Keeps the draft with the most points; of two equal ones the later, which followed more advice."""
    better = r.verdict.points >= r.best_points
    return {"points": [r.verdict.points]} | ({"best": r.draft, "best_points": r.verdict.points} if better else {})


@reply.router
def is_done(r: Reply) -> Literal["write", "END"]:
    """Goes round until the critic is content, and at most so many times."""
    return "END" if r.verdict.ok or len(r.points) >= r.rounds else "write"


reply.chain(START, "write", "judge", keep_best, is_done)


# -- without a model -------------------------------------------------------------------------------------------------


def script() -> dict[str, Scripted]:
    """Three drafts and what an editor said of them."""
    return {
        "write": Scripted(
            "Dear customer, we are sorry for the trouble. You will have your 1,899 EUR on Friday!",
            "Dear Dana Whitfield, we are sorry that your K400 arrived wet, that it stops with E-40, and that nobody "
            "came on the 16th. We have put your refund before our billing team.",
            "Dear Dana Whitfield, your K400 arrived wet, it stops with E-40 after eleven labels, and on the 16th you "
            "waited for a technician who never came: we are sorry. Our billing team decides about the refund that you "
            "ask for and writes to you itself. Until then Priya Nair of our service team is there for you by name.",
        ),
        "judge": Scripted(
            say(
                {
                    "ok": False,
                    "points": 2,
                    "advice": ["promises money and a date", "names neither the customer nor the faults", "shouts"],
                }
            ),
            say({"ok": False, "points": 7, "advice": ["says that something was done, not who does what next"]}),
            say({"ok": True, "points": 9, "advice": []}),
        ),
    }


# -- the command -----------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Goes round, and prints the best draft."""
    parser = argparse.ArgumentParser(prog="python -m examples.agents.writer_critic", description="Writer and critic.")
    parser.add_argument("--ticket", default="06", metavar="NN", help="the number of a ticket; the script knows 06 only")
    parser.add_argument("--rounds", type=int, default=4, metavar="N", help="how many rounds at most")
    parser.add_argument("--draw", metavar="FILE", help="draw what happened")
    args = parser.parse_args(argv)
    desk = Desk()
    (file,) = [name for name in desk.names() if name.startswith(args.ticket)]
    message = desk.read(file)
    with real_or(**script()):
        run = reply.run_sync(Reply(ticket=f"From: {message.name}\n{message.text}", rounds=args.rounds))
    state = run.state
    print(state.best)
    end = "the critic is content" if state.verdict.ok else f"no more than {args.rounds} rounds; the best draft is taken"
    print(f"\npoints by round: {', '.join(map(str, state.points))}; {end}")
    if args.draw:
        run.draw().save(args.draw)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
