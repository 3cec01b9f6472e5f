"""`flowagent doctor`: asks a model three things, each with one link more, and says which link breaks.

First a plain request, then one that needs a stub tool, which does nothing but return 1, then one that needs a real
tool. What breaks in the first is the way to the model; in the second, its calling of tools; in the third, the tool
itself, or what the model is told of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from flowagent.agents.agent import Agent
from flowagent.agents.hooks import Go, Hooks
from flowagent.cli import targets
from flowagent.cli.output import Output, short
from flowagent.cli.problems import DONE, FAILED, CommandError, ExitCode, told
from flowagent.core.context import Context
from flowagent.core.loops import run_blocking
from flowagent.core.policies import Limits
from flowagent.core.usage import NO_USAGE, Usage
from flowagent.errors import AgentStopped, FlowAgentError, GraphError, ModelError, ModelErrorKind
from flowagent.models.base import Model, ModelRequest
from flowagent.models.messages import ToolCall, user
from flowagent.models.opening import open_model
from flowagent.models.permission import VARIABLE
from flowagent.models.prompted import PromptedTools
from flowagent.models.retrying import Retrying
from flowagent.tools.outcome import ToolOutcome

Link = Literal[
    "permission", "connection", "key", "model", "provider", "request", "reply", "call", "arguments", "tool", "answer"
]
"""What can break: the leave to make requests, the way to the server, the key, the model's name, the provider itself,
what it is sent, what it says, its calling of tools, the arguments that it writes, the tool, and the use that it makes
of the result."""

_PLAIN: Final = "Reply with one word: ready"
_STUB: Final = "Call the tool `stub` once. Then tell me, in digits, the number that it returned."
_REAL: Final = "What is 1234 times 5678? Call the tool `multiply` for it, then tell me its result in digits."

_BY_KIND: Final[Mapping[ModelErrorKind, tuple[Link, str]]] = {
    "auth": ("key", "set the provider's key in the environment, and see that it may use this model"),
    "quota": ("key", "pay the bill or use another key; to wait does not help"),
    "rate_limit": ("provider", "try again later; in programs, `Limited` spaces requests out"),
    "overloaded": ("provider", "try again later; in programs, `Fallback` asks another model meanwhile"),
    "server": ("provider", "try again later; for a server of your own, look into its log"),
    "timeout": ("connection", "is the server too slow, or out of reach? --seconds gives it more time"),
    "connection": (
        "connection",
        "does the server run, is --base-url right, and does a proxy or firewall stand between?",
    ),
    "cut_off": ("connection", "try again; if it stays so, something between cuts long answers off"),
    "not_found": ("model", "check the model's name, and --base-url if you gave one"),
    "bad_request": ("request", "the server does not take what it is sent: is it of the interface that the name says?"),
    "unsupported": ("request", "ask another model, or give this one a `profile=` that says what it accepts"),
    "context_exceeded": ("request", "the model's window is very small: serve it with a larger one"),
    "refused": ("reply", "the provider declines harmless words: see the account's settings"),
    "forbidden": ("permission", f"unset {VARIABLE}"),
}


class _Broken(Exception):
    """A link broke.

    Args:
        link: which.
        what: what was seen.
        remedy: what to do about it.
    """

    def __init__(self, link: Link, what: str, remedy: str) -> None:
        self.link: Link = link
        self.what = what
        self.remedy = remedy
        super().__init__(what)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What came of a step.

    Args:
        step: which.
        ok: whether it went well; None if it was not tried, as one before it did not.
        what: what the model said, or what was seen to be wrong.
        link: what broke, or None.
        remedy: what to do about it.
        seconds: how long it took.
        usage: what it cost.
    """

    step: str
    ok: bool | None = None
    what: str = ""
    link: Link | None = None
    remedy: str = ""
    seconds: float = 0.0
    usage: Usage = NO_USAGE

    def plain(self) -> dict[str, Any]:
        """It as JSON data."""
        return {
            "step": self.step,
            "ok": self.ok,
            "what": self.what,
            "link": self.link,
            "remedy": self.remedy,
            "seconds": round(self.seconds, 3),
            "usage": self.usage.plain(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be examined.

    Args:
        model: `provider:model`, or where a model object is, as `MODULE:OBJECT`.
        base_url: where the provider is, if not at its own address.
        prompted: whether tools are written into the prompt, for models without tool calls of their own.
        tool: the real tool, as `MODULE:TOOL`; None takes one that multiplies.
        ask: a question that needs that tool.
        seconds: how long each step may take.
    """

    model: str
    base_url: str | None = None
    prompted: bool = False
    tool: str | None = None
    ask: str | None = None
    seconds: float = 120.0


_Step: TypeAlias = Callable[[], Awaitable[tuple[str, Usage]]]


def doctor(wanted: Wanted, output: Output) -> ExitCode:
    """Examine a model, tell what was found, and fail if a link is broken."""
    with output.quiet():
        model = _model(wanted)
        steps = _steps(model, wanted)
        findings = run_blocking(_examined(steps, wanted.seconds))
    ok = all(finding.ok for finding in findings)
    if output.as_json:
        output.document({"model": model.name, "ok": ok, "steps": [finding.plain() for finding in findings]})
    else:
        _tell(model.name, findings, output)
    return DONE if ok else FAILED


# -- what is examined --------------------------------------------------------------------------------------------------


def _model(wanted: Wanted) -> Model:
    model = _object(wanted) if _is_object(wanted.model) else _opened(wanted)
    return PromptedTools(model) if wanted.prompted else model


def _is_object(text: str) -> bool:
    """Whether a name is that of a Python object; names of providers have no dots, and none is that of a file here."""
    target = targets.parsed(text)
    return target.is_file or "." in target.source or (bool(target.name) and Path(f"{target.source}.py").is_file())


def _object(wanted: Wanted) -> Model:
    if wanted.base_url is not None:
        raise CommandError(f"--base-url does nothing for `{wanted.model}`, which is a model made already")
    found = targets.load_deps(wanted.model, "--model")
    if not isinstance(found, Model):
        raise CommandError(f"--model {wanted.model}: it is a `{type(found).__name__}` and no model")
    return found


def _opened(wanted: Wanted) -> Model:
    # One attempt: what is wrong shall be seen, and not waited out.
    once = Retrying(attempts=1)
    try:
        if wanted.base_url is None:
            return open_model(wanted.model, retrying=once)
        return open_model(wanted.model, retrying=once, base_url=wanted.base_url)
    except ModelError as error:
        raise CommandError(f"--model {error}") from error


def _steps(model: Model, wanted: Wanted) -> dict[str, _Step]:
    if (wanted.tool is None) != (wanted.ask is None):
        raise CommandError("--tool and --ask belong together: a tool, and a question that needs it")
    tool = multiply if wanted.tool is None else targets.load_object(wanted.tool, "--tool")
    question, expected = (_REAL, "7006652") if wanted.ask is None else (wanted.ask, None)
    try:
        stubbed, real = _agent(model, stub), _agent(model, tool)
    except GraphError as error:
        raise CommandError(f"--tool {wanted.tool}: {'; '.join(error.faults)}") from error
    return {
        "plain request": lambda: _plain(model),
        "stub tool": lambda: _with_tool(stubbed, _STUB, "1"),
        "real tool": lambda: _with_tool(real, question, expected),
    }


def stub() -> int:
    """Returns a number."""
    return 1


def multiply(a: int, b: int) -> int:
    """Multiplies two whole numbers.

    Args:
        a: the first number.
        b: the second number.
    """
    return a * b


# -- the steps ---------------------------------------------------------------------------------------------------------


async def _examined(steps: Mapping[str, _Step], seconds: float) -> list[Finding]:
    """The findings of all steps; what comes after a broken one is not tried."""
    findings: list[Finding] = []
    for name, step in steps.items():
        broken = any(not finding.ok for finding in findings)
        findings.append(Finding(step=name) if broken else await _finding(name, step, seconds))
    return findings


async def _finding(name: str, step: _Step, seconds: float) -> Finding:
    begun = time.perf_counter()
    try:
        async with asyncio.timeout(seconds):
            said, usage = await step()
        found = Finding(step=name, ok=True, what=said, usage=usage)
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what is looked for
        broken = _broken(error, seconds)
        found = Finding(step=name, ok=False, what=broken.what, link=broken.link, remedy=broken.remedy)
    return replace(found, seconds=time.perf_counter() - begun)


def _broken(error: Exception, seconds: float) -> _Broken:
    match error:
        case _Broken():
            return error
        case ModelError():
            link, remedy = _BY_KIND[error.kind]
            return _Broken(link, str(error), remedy)
        case TimeoutError():
            return _Broken("connection", f"no answer within {seconds:g} seconds", _BY_KIND["timeout"][1])
        case FlowAgentError():
            return _Broken("reply", str(error), "the model does not come to an end: ask another one")
        case _:
            return _Broken("model", told(error), "mend the model: it raised something else than a `ModelError`")


async def _plain(model: Model) -> tuple[str, Usage]:
    reply = await model.request(ModelRequest(messages=(user(_PLAIN),)))
    text = reply.message.text.strip()
    if reply.message.finish == "refused":
        raise _Broken("reply", f"the model declines: {short(text)}", "ask another model")
    if not text:
        raise _Broken(
            "reply",
            f"the model said nothing (its reply ended with `{reply.message.finish}`)",
            "is it a model for chat? if it thinks first, allow it more `max_tokens`",
        )
    return text, reply.usage


@dataclass
class _Watching(Hooks):
    """Notes what a model calls and what comes of it."""

    outcomes: list[tuple[ToolCall, ToolOutcome]] = field(default_factory=list[tuple[ToolCall, ToolOutcome]])

    async def tool(self, ctx: Context[Any, Any], call: Any, go: Go) -> Any:  # noqa: ARG002
        """Around the run of a tool."""
        outcome = await go(call)
        self.outcomes.append((call, outcome))
        return outcome


def _agent(model: Model, tool: Any) -> Agent:
    return Agent(model, name="doctor", tools=[tool], limits=Limits(requests=5), hooks=[_Watching()])


async def _with_tool(agent: Agent, question: str, expected: str | None) -> tuple[str, Usage]:
    """Ask something that needs the agent's one tool.

    Args:
        agent: who is asked.
        question: what.
        expected: what must stand in the answer, or None.
    """
    (watching,) = agent.hooks
    assert isinstance(watching, _Watching)
    try:
        result = await agent.run(question)
        answer, usage = str(result.output).strip(), result.usage
    except AgentStopped as stopped:
        _check_calls(watching.outcomes, str(stopped))
        raise
    _check_calls(watching.outcomes, answer)
    if expected is not None and expected not in answer.replace(",", "").replace("\u202f", ""):
        raise _Broken(
            "answer",
            f"the tool returned {expected}, and the model answers {short(answer)}",
            "the model does not read results: ask another one",
        )
    return answer, usage


def _check_calls(outcomes: list[tuple[ToolCall, ToolOutcome]], answer: str) -> None:
    """Find out which link of tool calling broke, unless a call went well."""
    if any(outcome.ok for _, outcome in outcomes):
        return
    if not outcomes:
        raise _Broken(
            "call",
            f"the model called no tool; it said {short(answer)}",
            "ask a model that calls tools, or have them written into the prompt: --prompted (`PromptedTools`)",
        )
    call, outcome = outcomes[-1]
    what = f"`{call.name}({call.arguments})`: {outcome.result.text}"
    match outcome.status:
        case "unknown":
            raise _Broken("call", what, "the model calls what there is not: ask another one")
        case "invalid":
            raise _Broken(
                "arguments", what, "describe the parameters better, or ask a model that writes JSON that fits"
            )
        case _:
            raise _Broken(
                "tool", what, "the model did its part: call the tool yourself with these arguments and mend it"
            )


# -- what is told ------------------------------------------------------------------------------------------------------


def _tell(name: str, findings: list[Finding], output: Output) -> None:
    output.say(name)
    for number, finding in enumerate(findings, start=1):
        _tell_one(f"  {number} {finding.step:<15}", finding, output)
    if all(finding.ok for finding in findings):
        output.say("every link holds", style="green")


def _tell_one(lead: str, finding: Finding, output: Output) -> None:
    if finding.ok is None:
        output.say(f"{lead}not tried", style="dim")
    elif finding.ok:
        output.say(f"{lead}ok      {finding.seconds:.1f} s  {short(finding.what)}", style="green")
    else:
        output.say(f"{lead}broken  {finding.seconds:.1f} s  link: {finding.link}", style="red")
        output.say(f"      {finding.what}")
        output.say(f"      -> {finding.remedy}")
