"""The main job, end to end, before your eyes: run, kill -9, look, resume, answer, finish, draw.

    flowagent demo                    or python -m examples.triage.demo
    flowagent demo --ask              answer the questions yourself

Nothing here sleeps and hopes: the kill comes when the effects file has so many lines, and what was recorded is read
from the store.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Final

from examples.triage.answers import by_asking, by_rule
from examples.triage.desk import Desk
from examples.triage.graphs import Inbox, inbox
from flowagent import Run
from flowagent.errors import DrawError
from flowagent.render import Diagram

ROOT: Final = Path(__file__).resolve().parents[2]
RUN_ID: Final = "demo"
OWN_FILES: Final = ("runs.db", "runs.db-wal", "runs.db-shm", "effects.txt", "refunds.txt", "report.md", "worker.log")
PATIENCE: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What the demo was asked to do, and what it has to work with."""

    out: Path
    kill_after: int
    delay: float
    ask: bool
    approve_up_to: Decimal
    pictures: list[Path] = field(default_factory=list[Path])

    @property
    def store(self) -> str:
        return str(self.out / "runs.db")

    @property
    def desk(self) -> Desk:
        return Desk(out=self.out, delay=self.delay)

    def effects(self) -> list[str]:
        """The keys of the tasks that did something, in order; one that was done twice is there twice."""
        file = self.desk.effects
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [line.partition(" ")[2] for line in lines]


def arguments() -> argparse.ArgumentParser:
    """What the command line takes."""
    parser = argparse.ArgumentParser(prog="flowagent demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(".flowagent/demo"), metavar="DIR", help="where results go")
    parser.add_argument("--ask", action="store_true", help="answer the questions yourself")
    parser.add_argument("--approve-up-to", type=Decimal, default=Decimal(2000), metavar="EUR", help="else by this rule")
    parser.add_argument("--kill-after", type=int, default=90, metavar="N", help="kill -9 after so many effects")
    parser.add_argument("--delay", type=float, default=0.03, metavar="S", help="seconds that each node works")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Plays the demo; returns 0 if everything went as promised."""
    args = arguments().parse_args(argv)
    demo = Demo(
        out=args.out.resolve(),
        kill_after=args.kill_after,
        delay=args.delay,
        ask=args.ask,
        approve_up_to=args.approve_up_to,
    )
    clear(demo.out)
    define(demo)
    recorded = kill(demo)
    run = resume(demo)
    kept_promise = compare(demo, recorded)
    before = demo.effects()
    run = answer(demo, run)
    kept_promise &= finish(demo, run, before)
    return 0 if kept_promise and run.status == "completed" else 1


def clear(out: Path) -> None:
    """Makes the folder, and removes what an earlier demo left in it; nothing else."""
    out.mkdir(parents=True, exist_ok=True)
    for name in OWN_FILES:
        (out / name).unlink(missing_ok=True)
    shutil.rmtree(out / "replies", ignore_errors=True)
    for picture in [*out.glob("[1-9]-*.svg"), *out.glob("[1-9]-*.png")]:
        picture.unlink()


def define(demo: Demo) -> None:
    """Draws the graph, and the one nested in it, before anything runs."""
    step(1, "The definition")
    say(f"{len(demo.desk.names())} tickets in {demo.desk.tickets.relative_to(ROOT)}: e-mails, chats, forms, notes;")
    say("English, German, French, Japanese; latin-1, UTF-16, HTML; empty ones, spam, a duplicate, damaged attachments.")
    draw(demo, inbox.draw(), "1-definition")


def kill(demo: Demo) -> frozenset[str]:
    """Starts a worker process, kills it in the middle, and returns the keys of the tasks that were recorded."""
    step(2, "A worker process starts, and is killed in the middle")
    worker = start_worker(demo)
    wait_for_effects(demo, worker)
    worker.kill()
    worker.wait()
    run = inbox.load_sync(RUN_ID, store=demo.store)
    recorded = recorded_keys(run)
    lost = [key for key in demo.effects() if key not in recorded]
    say(f"process {worker.pid} got kill -9 (exit code {worker.returncode}) after {len(demo.effects())} effects")
    say(f"the store says: run `{run.run_id}` is {run.status}, {len(recorded)} tasks are recorded as done,")
    say(f"{len(lost)} had begun and were not recorded yet: they may run again, with the same key")
    draw(demo, run.draw(), "2-killed")
    return recorded


def start_worker(demo: Demo) -> subprocess.Popen[bytes]:
    """A process of its own that runs the workflow, as `python -m examples.triage` does for anybody."""
    command = [sys.executable, "-m", "examples.triage", "--out", str(demo.out), "--store", demo.store]
    command += ["--run-id", RUN_ID, "--delay", str(demo.delay)]
    say(f"$ python {' '.join(command[1:3])} --run-id {RUN_ID} ...")
    with (demo.out / "worker.log").open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)


def wait_for_effects(demo: Demo, worker: subprocess.Popen[bytes]) -> None:
    """Returns as soon as the effects file is long enough."""
    until = time.monotonic() + PATIENCE
    while len(demo.effects()) < demo.kill_after:
        if worker.poll() is not None:
            sys.exit(f"the worker ended before it could be killed; see {demo.out / 'worker.log'}")
        if time.monotonic() > until:
            worker.kill()
            sys.exit(f"the worker did too little in {PATIENCE:.0f} s; see {demo.out / 'worker.log'}")
        time.sleep(0.005)


def recorded_keys(run: Run[Inbox]) -> frozenset[str]:
    """The keys of the tasks that the journal has as done."""
    return frozenset(f"{run.run_id}/{step.task}" for step in run.history if step.kind in ("done", "item"))


def resume(demo: Demo) -> Run[Inbox]:
    """A second worker goes on until the run needs a person."""
    step(3, "A second worker process goes on with the run")
    worker = start_worker(demo)
    worker.wait(timeout=PATIENCE)
    run = inbox.load_sync(RUN_ID, store=demo.store)
    say(f"process {worker.pid} ended with exit code {worker.returncode}: the run is {run.status}")
    draw(demo, run.draw(), "3-waiting")
    return run


def compare(demo: Demo, recorded: frozenset[str]) -> bool:
    """Looks for a task that was recorded before the kill and did something again after it."""
    times = Counter(demo.effects())
    twice = [key for key, count in times.items() if count > 1]
    wrong = [key for key in twice if key in recorded]
    say(f"{times.total()} effects by {len(times)} tasks: {len(twice)} did theirs twice, each with the same key:")
    say(f"    {', '.join(twice[:4])}{', ...' if len(twice) > 4 else ''}")
    if wrong:
        say(f"THIS MUST NOT BE: recorded before the kill and run again: {', '.join(wrong)}")
    else:
        say(f"none of the {len(recorded)} recorded tasks ran again")
    return not wrong


def answer(demo: Demo, run: Run[Inbox]) -> Run[Inbox]:
    """Answers what the run asks, and lets it go on in this process."""
    done = sum(one.kind == "item" and one.node == "ticket" for one in run.history)
    step(4, f"{len(run.questions)} tickets wait for a person; {done} are done")
    answers: dict[str, str] = {}
    for question in run.questions:
        said = by_asking(question.text) if demo.ask else by_rule(question.text, demo.approve_up_to)
        say(f"{question.text}  ->  {said}")
        answers[question.id] = said
    return inbox.resume_sync(RUN_ID, answers=answers, store=demo.store, deps=demo.desk)


def finish(demo: Demo, run: Run[Inbox], before: list[str]) -> bool:
    """Shows what came out; returns whether the answers made no task run again."""
    step(5, f"The run is {run.status}")
    new = demo.effects()[len(before) :]
    again = sorted(set(new) & set(before))
    say(f"the answers led to {len(new)} more effects, {len(again)} of them by tasks that had run before")
    report = demo.out / "report.md"
    report.write_text(run.state.report, encoding="utf-8")
    for line in run.state.report.splitlines()[2:6]:
        say(line)
    draw(demo, run.draw(), "4-completed")
    print(f"\nReport    {report}\nReplies   {demo.out / 'replies'}\nStore     {demo.store}")
    for picture in demo.pictures:
        print(f"Picture   {picture}")
    return not again


def draw(demo: Demo, diagram: Diagram, name: str) -> None:
    """Saves a picture as SVG, and as PNG where that can be done."""
    for suffix in (".svg", ".png"):
        try:
            demo.pictures.append(diagram.save(demo.out / f"{name}{suffix}"))
        except DrawError as error:
            say(f"no {suffix[1:].upper()} of {name}: {error}")


def step(number: int, title: str) -> None:
    """Prints a heading."""
    print(f"\n{number}. {title}", flush=True)


def say(line: str) -> None:
    """Prints one line below the heading."""
    print(f"   {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
