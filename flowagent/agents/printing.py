"""Shows an agent at work in a terminal: its text as it comes, the tools that it calls, and what it cost."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.json import JSON
from rich.markdown import Markdown
from rich.panel import Panel
from rich.text import Text as Line

from flowagent.agents.result import AgentResult, AgentWatch
from flowagent.core.events import Asked, Event, ModelWaits, TextDelta, ToolEnded, ToolStarted
from flowagent.core.fields import cut
from flowagent.core.usage import Usage
from flowagent.models.base import ModelRequest


def print_request(agent: str, request: ModelRequest, console: Console | None = None) -> None:
    """Print a request exactly as a model is asked, to standard error.

    Args:
        agent: whose request it is.
        request: what is sent.
        console: where to print, by default standard error.
    """
    shown = request.model_dump_json(exclude_defaults=True)
    out = console or Console(stderr=True)
    out.print(Panel(JSON(shown), title=Line(f"request of {agent}"), title_align="left"))


def print_result(result: AgentResult[Any], *, console: Console | None = None, markdown: bool = False) -> None:
    """Print what came of a run: the answer, or what it waits for, and what it cost.

    Args:
        result: the result.
        console: where to print, by default standard output.
        markdown: whether the answer is Markdown.
    """
    out = console or Console()
    for one in result.pending:
        out.print(Line(f"waits for a decision about {one.call_id}: {one.text}", style="yellow"))
    if result.ending is not None and result.ending.reason in ("answer", "final_tool"):
        answer = result.output
        text = answer if isinstance(answer, str) else JSON.from_data(_plain(answer))
        out.print(
            Markdown(text) if markdown and isinstance(text, str) else Line(text) if isinstance(text, str) else text
        )
    elif result.ending is not None:
        out.print(Line(f"ended without an answer ({result.ending.reason}): {result.ending.because}", style="red"))
    out.print(Line(cost_line(result.usage), style="dim"))


async def print_stream(
    watch: AgentWatch[Any], *, console: Console | None = None, show_tools: bool = True, show_thinking: bool = False
) -> None:
    """Print an agent's events as they come, to the end.

    Args:
        watch: what `agent.stream(...)` gave.
        console: where to print, by default standard output.
        show_tools: whether calls of tools are shown with their results.
        show_thinking: whether thoughts are shown.

    Raises:
        Exception: what the run raises.
    """
    out = console or Console()
    printer = _Printer(out, show_tools=show_tools, show_thinking=show_thinking)
    async for event in watch:
        printer.take(event)
    printer.finish_line()


def cost_line(usage: Usage) -> str:
    """What was spent, in a line."""
    tokens = "tokens unknown" if usage.tokens is None else f"{usage.tokens} tokens"
    cost = "" if usage.cost is None else f", ${usage.cost:.4f}"
    more = " or more" if usage.unmeasured and usage.tokens is not None else ""
    return f"{usage.requests} requests, {usage.tool_calls} tool calls, {tokens}{more}{cost}"


class _Printer:
    def __init__(self, console: Console, *, show_tools: bool, show_thinking: bool) -> None:
        self._console = console
        self._show_tools = show_tools
        self._show_thinking = show_thinking
        self._is_inside_line = False

    def take(self, event: Event) -> None:
        match event:
            case TextDelta(text=text, thinking=thinking):
                if not thinking or self._show_thinking:
                    self._console.print(Line(text, style="dim" if thinking else ""), end="")
                    self._is_inside_line = not text.endswith("\n")
            case ToolStarted(tool=tool, arguments=arguments) if self._show_tools:
                self._line(f"→ {tool}({arguments})", "cyan")
            case ToolEnded(tool=tool, is_error=is_error, text=text) if self._show_tools:
                self._line(f"← {tool}: {_cut(text)}", "red" if is_error else "green")
            case ModelWaits(seconds=seconds, message=message):
                self._line(f"waits {seconds:.1f} s: {message}", "yellow")
            case Asked(question=question):
                self._line(f"asks: {question.text}", "yellow")
            case _:
                pass

    def _line(self, text: str, style: str) -> None:
        self.finish_line()
        self._console.print(Line(text, style=style))

    def finish_line(self) -> None:
        if self._is_inside_line:
            self._console.print()
            self._is_inside_line = False


def _cut(text: str) -> str:
    return cut(" ".join(text.split()), 200)


def _plain(value: Any) -> Any:
    return to_jsonable_python(value)
