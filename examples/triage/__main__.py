"""Sorts a folder of tickets from the command line; see `--help`.

The same command goes on where a killed run stopped: the run is found by its id in the store.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from examples.triage.answers import WAITING, by_asking, by_rule
from examples.triage.desk import HERE, Desk
from examples.triage.graphs import Inbox, inbox
from flowagent import Run


def arguments() -> argparse.ArgumentParser:
    """What the command line takes."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.triage",
        description="Sort and answer a folder of support tickets. Give the same command again to go on with a run.",
        epilog="exit codes: 0 done, 1 failed, 2 usage, 3 waiting for an answer",
    )
    parser.add_argument("--tickets", type=Path, default=HERE / "tickets", metavar="DIR", help="the tickets, *.txt")
    parser.add_argument("--out", type=Path, default=Path(".flowagent/triage"), metavar="DIR", help="where results go")
    parser.add_argument("--store", metavar="FILE", help="the SQLite file that keeps the run (default: OUT/runs.db)")
    parser.add_argument("--run-id", default="triage", metavar="ID", help="start this run, or go on with it")
    parser.add_argument("--limit", type=Decimal, default=Decimal(1000), metavar="EUR", help="ask above this refund")
    parser.add_argument("--delay", type=float, default=0.0, metavar="S", help="seconds that each node pretends to work")
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument("--ask", action="store_true", help="answer the questions here in the terminal")
    answer.add_argument("--approve-up-to", type=Decimal, metavar="EUR", help="answer them by this rule")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Starts the run or goes on with it, answers what it is told to answer, and says where things are."""
    args = arguments().parse_args(argv)
    out: Path = args.out
    out.mkdir(parents=True, exist_ok=True)
    store = args.store or str(out / "runs.db")
    desk = Desk(tickets=args.tickets, out=out, limit=args.limit, delay=args.delay)
    run = inbox.run_sync(Inbox(), store=store, run_id=args.run_id, deps=desk)
    if run.status == "waiting" and (args.ask or args.approve_up_to is not None):
        answers = {
            question.id: by_asking(question.text) if args.ask else by_rule(question.text, args.approve_up_to)
            for question in run.questions
        }
        run = inbox.resume_sync(args.run_id, answers=answers, store=store, deps=desk)
    return tell(run, out)


def tell(run: Run[Inbox], out: Path) -> int:
    """Prints how the run stands; writes the report when it is done."""
    if run.status != "completed":
        print(f"run `{run.run_id}` is {run.status}")
        for question in run.questions:
            print(f"  {question.id}: {question.text}")
        print("give the command again with --ask or --approve-up-to EUR")
        return WAITING
    report = out / "report.md"
    report.write_text(run.state.report, encoding="utf-8")
    print(f"run `{run.run_id}` is completed; report in {report}, replies in {out / 'replies'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
