"""Planner, coder, tester: a failing test goes back to the coder, with what it said.

    python -m examples.agents.coder                    scripted: the first try is wrong, the second passes
    python -m examples.agents.coder --run-code         with a real model: runs what it writes

The tester is no model. It runs the tests of `amounts_spec.py`, which stand fast, in a process of its own, with a time
limit and in a folder of its own. That is no sandbox: the process may do what you may. Code that a real model wrote is
therefore only run if you say so, and you should say so in a container.

    START -> plan -> code -> test -> how_it_went -> code again, at most so many times | END
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from examples.agents.model import MODEL, real, real_or
from flowagent import START, Graph, State, Update, append
from flowagent.agents import Agent
from flowagent.testing import Scripted, say

SPEC: Final = Path(__file__).with_name("amounts_spec.py")
TASK: Final = (
    "Write the module `amounts` with a function `amount_in(text: str) -> Decimal | None`: the amount of euros that a "
    "customer names in a message, as EUR or €, written in the English, German or French way; None if there is none."
)


class Plan(BaseModel):
    """How to go about it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: list[str] = Field(min_length=1, max_length=6)


class Module(BaseModel):
    """A module that was written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str = Field(description="the whole text of the Python module, standard library only")


class Work(State):
    """A task, its plan, the code as it is, and what the tests said each time."""

    task: str
    most_tries: int = 4
    plan: Plan = Plan(steps=["none yet"])
    module: Module = Module(code="")
    passed: bool = False
    reports: Annotated[list[str], append] = []
    said: str = "nothing yet"


planner = Agent(
    MODEL,
    name="plan",
    role="a software engineer who thinks before others write",
    instructions="Split the task into a few steps. Name what is easily overlooked. Write no code.",
    output=Plan,
)
coder = Agent(
    MODEL,
    name="code",
    role="a careful Python programmer",
    instructions="Write the whole module anew each time. Mend what the tests say, and break nothing that worked.",
    output=Module,
)

work = Graph("work", Work)
work.node(planner, prompt="{task}", into="plan")
work.node(
    coder,
    prompt="{task}\n\nThe plan:\n{plan.steps}\n\nThe module so far:\n{module.code}\n\nWhat the tests said:\n{said}",
    into="module",
)


@work.node
def test(w: Work) -> Update:
    """Runs the tests on the code."""
    passed, said = judged(w.module.code)
    return {"passed": passed, "said": said, "reports": [said]}


@work.router
def how_it_went(w: Work) -> Literal["code", "END"]:
    """Back to the coder as long as tests fail, but not for ever."""
    return "END" if w.passed or len(w.reports) >= w.most_tries else "code"


work.chain(START, "plan", "code", test, how_it_went)


def judged(code: str, seconds: float = 20.0) -> tuple[bool, str]:
    """What the tests say of a module, run in another process."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "amounts.py").write_text(code, encoding="utf-8")
        Path(folder, SPEC.name).write_bytes(SPEC.read_bytes())
        try:
            done = subprocess.run(
                [sys.executable, SPEC.name],
                cwd=folder,
                env={"PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8"},  # none of our keys
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False, f"the tests did not end within {seconds:g} seconds"
    return done.returncode == 0, done.stdout.decode(errors="replace")[-2_000:].strip()


# -- without a model -------------------------------------------------------------------------------------------------

FIRST: Final = """
import re
from decimal import Decimal


def amount_in(text):
    found = re.search(r"(?:EUR|€)\\s?([\\d.,]*\\d)|([\\d.,]*\\d)\\s?(?:EUR|€)", text)
    return Decimal((found[1] or found[2]).replace(",", "")) if found else None
"""
SECOND: Final = '''
import re
from decimal import Decimal

AMOUNT = re.compile(r"(?:EUR|€)\\s?(\\d[\\d.,]*\\d|\\d)|(\\d[\\d.,]*\\d|\\d)\\s?(?:EUR|€)")


def amount_in(text):
    """The amount of euros in a text, or None."""
    found = AMOUNT.search(text)
    return None if found is None else number(found[1] or found[2])


def number(written):
    """A number with a point or a comma before its cents; what else parts its digits is left out."""
    whole, cents = written, ""
    if len(written) > 3 and written[-3] in ".,":
        whole, cents = written[:-3], "." + written[-2:]
    return Decimal(re.sub(r"[.,]", "", whole) + cents)
'''


def script() -> dict[str, Scripted]:
    """A plan, a module that reads numbers in the English way only, and one that passes."""
    steps = ["find EUR or € before or after a number", "tell the point of thousands from that of cents"]
    return {
        "plan": Scripted(say({"steps": steps})),
        "code": Scripted(say({"code": FIRST}), say({"code": SECOND})),
    }


# -- the command -----------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Goes round until the tests pass, and prints what they said and the code."""
    parser = argparse.ArgumentParser(prog="python -m examples.agents.coder", description="Planner, coder, tester.")
    parser.add_argument("--run-code", action="store_true", help="run code that a real model wrote, here, as you")
    parser.add_argument("--tries", type=int, default=4, metavar="N", help="how often the coder may try")
    args = parser.parse_args(argv)
    if real()[0] and not args.run_code:
        print("a real model would write the code: say --run-code if it may run on this machine", file=sys.stderr)
        return 2
    with real_or(**script()):
        run = work.run_sync(Work(task=TASK, most_tries=args.tries))
    state = run.state
    print("plan: " + "; ".join(state.plan.steps))
    for number, report in enumerate(state.reports, start=1):
        print(f"\ntry {number}:\n{report}")
    print(f"\n{state.module.code.strip()}")
    return 0 if state.passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
