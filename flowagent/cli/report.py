"""How a run stands, as data for programs and as text for people, with the commands that go on with it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from flowagent.cli import values
from flowagent.cli.kept import DEFAULT_STORE
from flowagent.cli.output import Output, counted, readable
from flowagent.cli.problems import DONE, FAILED, INTERRUPTED, LIMIT, WAITING, ExitCode, told
from flowagent.core.facts import Question
from flowagent.core.figures import spent_in_all
from flowagent.core.policies import Limits
from flowagent.core.records import Status
from flowagent.core.run import Run
from flowagent.core.secret import shown
from flowagent.errors import NodeError

CODES: Final[dict[Status, ExitCode]] = {
    "completed": DONE,
    "failed": FAILED,
    "cancelled": FAILED,
    "waiting": WAITING,
    "limit": LIMIT,
    "interrupted": INTERRUPTED,
    "running": FAILED,
}

STYLES: Final[dict[Status, str]] = {
    "completed": "green",
    "failed": "red",
    "cancelled": "red",
    "waiting": "yellow",
    "limit": "yellow",
    "interrupted": "yellow",
    "running": "cyan",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How to speak of a run on the command line.

    Args:
        run_id: the run.
        store: its store's file.
        graph: `MODULE:GRAPH`, if it has to be said.
        deps: `MODULE:OBJECT`, if it has to be said.
        key_env: the environment variable with the store's keys, if it is encrypted.
    """

    run_id: str
    store: str = DEFAULT_STORE
    graph: str | None = None
    deps: str | None = None
    key_env: str | None = None

    def command(self, *more: str, verb: str = "resume") -> str:
        """The exact command, quoted for a shell."""
        words = ["flowagent", verb, *(["--", self.run_id] if self.run_id.startswith("-") else [self.run_id])]
        options = list(more)
        for name, value in (("--graph", self.graph), ("--deps", self.deps), ("--key-env", self.key_env)):
            if value is not None:
                options += [name, value]
        if self.store != DEFAULT_STORE:
            options += ["--store", self.store]
        if self.run_id.startswith("-"):  # options have to come before `--`
            words[2:2] = options
        else:
            words += options
        return shlex.join(words)


# -- data --------------------------------------------------------------------------------------------------------------


def document(run: Run[Any], way: Way) -> dict[str, Any]:
    """A run as a JSON document."""
    return {
        "run_id": run.run_id,
        "graph": run.graph_name,
        "status": run.status,
        "reason": run.reason,
        "replayed": run.replayed,
        "state": plain_state(run),
        "unmerged": list(run.unmerged),
        "questions": [question.plain() for question in run.questions],
        "errors": [plain_error(error) for error in run.errors],
        "warnings": list(run.warnings),
        "usage": run.usage.plain(),
        "store": way.store,
        "resume": None if run.status == "completed" else way.command(),
    }


def plain_state(run: Run[Any]) -> Any:
    """The state as JSON has it."""
    return shown(run.state)


def plain_error(error: NodeError) -> dict[str, Any]:
    """A failed task as JSON has it."""
    return {name: getattr(error, name) for name in ("graph", "node", "task", "attempt", "kind", "message")}


# -- text --------------------------------------------------------------------------------------------------------------


def tell(run: Run[Any], way: Way, output: Output, *, limits: Limits) -> None:
    """Say how a run stands: its state to stdout, what went wrong to stderr, and what to do next."""
    if output.as_json:
        output.document(document(run, way))
    else:
        headline(output, run.run_id, run.graph_name, run.status, because=_because(run))
        output.say("")
        output.say(readable(plain_state(run)))
        if spent := spent_in_all(run.usage):
            output.say(f"\nspent: {', '.join(spent)}")
    if run.unmerged:
        output.say(f"\nnot merged yet, and shown as before the branches parted: {', '.join(run.unmerged)}")
    if run.questions:
        tell_questions(output, run.questions, way)
    if run.status == "failed":
        tell_errors(run.errors, way, output)
    elif run.status == "limit":
        output.tell(f"\nstopped: {run.reason}; to go on:\n  {way.command(*_higher(run, limits))}")
    elif run.status == "cancelled":
        output.tell(f"\ncancelled: {run.reason}; to go on all the same:\n  {way.command()}")


def headline(output: Output, run_id: str, graph: str, status: Status, *, because: str = "") -> None:
    """One line that says where a run stands."""
    output.say(f"run `{run_id}` of graph `{graph}`: {status}{because}", style=STYLES[status])


def _because(run: Run[Any]) -> str:
    if run.status == "waiting":
        return f" for {counted(len(run.questions), 'answer')}"
    if run.status == "completed" and run.replayed:
        return " (before this; nothing was executed)"
    return ""


_LIMIT: Final = re.compile(r"reached the limit of (?P<dollar>\$?)[\d.]+ ?(?P<unit>step|request|tool call|token)?")


def _higher(run: Run[Any], limits: Limits) -> Sequence[str]:
    """All but seconds count over all calls, so going on takes a higher limit."""
    found = _LIMIT.match(run.reason)
    assert found is not None, f"a limit gives no such reason: {run.reason!r}; this is a bug in flowagent"
    if found["dollar"]:
        most = Decimal(str(limits.cost or 0))
        return ("--cost", f"{2 * max(most, run.usage.cost or most):f}")
    name = found["unit"] and f"{found['unit'].replace(' ', '_')}s"
    if not name:
        return ()
    spent: int = getattr(run.usage, name, None) or 0
    return (f"--{name.replace('_', '-')}", str(2 * max(getattr(limits, name) or 1000, spent)))


def tell_questions(output: Output, questions: Sequence[Question], way: Way) -> None:
    """The open questions, each with the commands that answer it."""
    output.say(f"\n{counted(len(questions), 'open question')}:")
    for question in questions:
        output.say(f"  {question.id}: {question.text}", style="yellow")
        for line in _answering(question, way):
            output.say(f"    {line}")
    if len(questions) > 1:
        output.say("  (one command may give several answers: repeat --answer)")


def _answering(question: Question, way: Way) -> list[str]:
    allowed = ("retry", "abort") if question.purpose == "once" else values.choices(question.schema)
    if allowed:
        return [way.command("--answer", f"{question.id}={values.written(value)}") for value in allowed]
    schema: Mapping[str, Any] = question.schema or {}
    kind = schema.get("type")
    return [way.command("--answer", f"{question.id}=ANSWER") + (f"  (ANSWER: {kind})" if kind else "")]


def tell_errors(errors: Sequence[NodeError], way: Way, output: Output) -> None:
    """What failed, and the command that tries it again."""
    output.tell(f"\n{counted(len(errors), 'task')} failed:")
    for error in errors:
        output.trace(error)
        output.tell(f"  {error.task}: {reason(error)}", style="red")
    if any(error.kind == "ConflictError" for error in errors):
        output.tell(f"to settle a field by hand:\n  {way.command('--resolve', 'FIELD=JSON')}")
    output.tell(f"mend the cause, then go on from here with:\n  {way.command()}")


def reason(error: NodeError) -> str:
    """Why a task failed, and where in the user's code if it happened in this process."""
    tries = "" if error.attempt == 1 else f" (attempt {error.attempt})"
    text = f"{error.kind}: {error.message}" if error.__cause__ is None else told(error.__cause__)
    return (
        (text + tries).replace("\n", "\n    ") if error.__cause__ is None else text.replace("\n", f"{tries}\n    ", 1)
    )
