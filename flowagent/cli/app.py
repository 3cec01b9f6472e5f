"""The commands as they are typed, and the one place where an exception becomes a message and an exit code."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Final, cast

import typer

from flowagent.cli import define, demo, launch, new, show
from flowagent.cli.kept import DEFAULT_STORE
from flowagent.cli.launch import Additions, Settings
from flowagent.cli.output import Output, prepare_streams, wants_tracebacks
from flowagent.cli.problems import DONE, FAILED, INTERRUPTED, USAGE, CommandError, ExitCode, told
from flowagent.cli.report import Way
from flowagent.core.policies import Durability, OnFailure
from flowagent.core.version import VERSION
from flowagent.errors import FlowAgentError

CODES: Final = "Exit codes: 0 done, 1 failed, 2 usage (nothing was run), 3 waiting for an answer, 4 limit, 130 Ctrl-C."

app = typer.Typer(
    name="flowagent",
    help="Workflows as graphs: check, draw, run, resume and look at them.",
    epilog=CODES,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

# -- what several commands take ----------------------------------------------------------------------------------------

Target = Annotated[str, typer.Argument(metavar="MODULE:GRAPH", help="Where the graph is; also FILE.py:GRAPH.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
Elsewhere = Annotated[
    str | None,
    typer.Option("--graph", metavar="MODULE:GRAPH", help="Where the graph is; by default where it was last run from."),
]
StorePath = Annotated[str, typer.Option("--store", metavar="FILE", help="The SQLite file that keeps the runs.")]
KeyEnv = Annotated[
    str | None,
    typer.Option("--key-env", metavar="NAME", help="The environment variable with the keys of an encrypted store."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, nothing else there.")]
Deps = Annotated[
    str | None,
    typer.Option(
        "--deps", metavar="MODULE:OBJECT", help="What nodes get as ctx.deps; functions and classes are called."
    ),
]
Steps = Annotated[int | None, typer.Option("--steps", metavar="N", help="Stop after N node visits in all. [1000]")]
Seconds = Annotated[float | None, typer.Option("--seconds", metavar="S", help="Stop after S seconds of work.")]
Requests = Annotated[
    int | None, typer.Option("--requests", metavar="N", help="Stop before more than N requests to models in all.")
]
Tokens = Annotated[int | None, typer.Option("--tokens", metavar="N", help="Stop when N tokens have been used in all.")]
ToolCalls = Annotated[
    int | None, typer.Option("--tool-calls", metavar="N", help="Stop before more than N calls of tools in all.")
]
Cost = Annotated[str | None, typer.Option("--cost", metavar="USD", help="Stop when so many dollars are spent in all.")]
WhenFailed = Annotated[
    OnFailure | None,
    typer.Option("--on-failure", help="What a failed task does to the rest. [finish]"),
]
WhatIsStored = Annotated[
    Durability | None,
    typer.Option("--durability", help="What is stored when. [step]"),
]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="Plain lines in place of a live table.")]


def _version(wanted: bool) -> None:
    if wanted:
        Output().say(f"flowagent {VERSION}")
        raise typer.Exit


@app.callback()
def options(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    tracebacks: Annotated[
        bool, typer.Option("--traceback", help="Show tracebacks with errors; may stand anywhere in the command.")
    ] = False,
) -> None:
    """Workflows as graphs: check, draw, run, resume and look at them."""
    wants_tracebacks.set(tracebacks)


# -- definitions -------------------------------------------------------------------------------------------------------


@app.command("check")
def check(target: Target, *, as_json: AsJson = False) -> None:
    """Tell all that is wrong with a graph, and what is odd. Exit code 1 if anything is wrong."""
    _end(lambda output: define.check(target, output), as_json=as_json)


@app.command("draw")
def draw(
    target: Target,
    *,
    file: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="An .svg, .png, .dot or .mmd file.")
    ] = None,
    form: Annotated[define.Format | None, typer.Option("--format", help="By default as FILE says, else dot.")] = None,
) -> None:
    """Draw a graph; text formats go to stdout without -o."""
    _end(lambda output: define.draw(target, file, form, output))


@app.command("new")
def make(
    template: Annotated[
        str | None, typer.Argument(metavar="TEMPLATE", help="Which template; --list shows them.")
    ] = None,
    folder: Annotated[
        str | None, typer.Argument(metavar="FOLDER", help="Where it goes. [a folder of the template's name]")
    ] = None,
    *,
    wants_list: Annotated[bool, typer.Option("--list", help="List the templates.")] = False,
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="What it asks, as provider:model.")] = new.MODEL,
    as_json: AsJson = False,
) -> None:
    """Make a project of a template: a program that runs, a test that needs no model, and a README."""
    if wants_list or template is None:
        _end(new.show, as_json=as_json)
    else:
        _end(lambda output: new.make(template, folder, model, output), as_json=as_json)


# -- running -----------------------------------------------------------------------------------------------------------


@app.command("run", epilog=CODES)
def run(
    target: Target,
    given: Annotated[
        str | None,
        typer.Argument(metavar="INPUT", help="The state to start with: JSON, a file (or @FILE), or - for stdin."),
    ] = None,
    *,
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="ID", help="The run's name; a known one is gone on with.")
    ] = None,
    store: StorePath = DEFAULT_STORE,
    key_env: KeyEnv = None,
    deps: Deps = None,
    steps: Steps = None,
    seconds: Seconds = None,
    requests: Requests = None,
    tokens: Tokens = None,
    tool_calls: ToolCalls = None,
    cost: Cost = None,
    on_failure: WhenFailed = None,
    durability: WhatIsStored = None,
    no_progress: NoProgress = False,
    as_json: AsJson = False,
) -> None:
    """Run a graph. Every step is stored: whatever stops it, `flowagent resume` goes on from there."""
    settings = Settings(
        store=store,
        key_env=key_env,
        deps=deps,
        steps=steps,
        seconds=seconds,
        requests=requests,
        tokens=tokens,
        tool_calls=tool_calls,
        cost=cost,
        on_failure=on_failure,
        durability=durability,
        progress=not no_progress,
    )
    _end(lambda output: launch.run(target, given, run_id, settings, output), as_json=as_json)


@app.command("resume", epilog=CODES)
def resume(
    run_id: RunId,
    *,
    graph: Elsewhere = None,
    answers: Annotated[
        list[str] | None,
        typer.Option("--answer", metavar="ID=VALUE", help="Answer a question; JSON if it is and fits, else text."),
    ] = None,
    retry: Annotated[
        list[str] | None,
        typer.Option("--retry", metavar="TASK=fresh", help="Drop what the steps of an unfinished task recorded."),
    ] = None,
    resolve: Annotated[
        list[str] | None,
        typer.Option("--resolve", metavar="FIELD=JSON", help="Settle a field that branches wrote differently."),
    ] = None,
    accept_changes: Annotated[
        bool, typer.Option("--accept-changes", help="Go on although the graph has changed.")
    ] = False,
    store: StorePath = DEFAULT_STORE,
    key_env: KeyEnv = None,
    deps: Deps = None,
    steps: Steps = None,
    seconds: Seconds = None,
    requests: Requests = None,
    tokens: Tokens = None,
    tool_calls: ToolCalls = None,
    cost: Cost = None,
    on_failure: WhenFailed = None,
    durability: WhatIsStored = None,
    no_progress: NoProgress = False,
    as_json: AsJson = False,
) -> None:
    """Go on with a run: answer its questions, try failed tasks again. Nothing that was recorded is run again."""
    settings = Settings(
        store=store,
        key_env=key_env,
        deps=deps,
        steps=steps,
        seconds=seconds,
        requests=requests,
        tokens=tokens,
        tool_calls=tool_calls,
        cost=cost,
        on_failure=on_failure,
        durability=durability,
        progress=not no_progress,
    )
    additions = Additions(
        answers=answers or (), retry=retry or (), resolve=resolve or (), accept_changes=accept_changes
    )
    _end(lambda output: launch.resume(run_id, graph, additions, settings, output), as_json=as_json)


# -- looking -----------------------------------------------------------------------------------------------------------


@app.command("runs")
def runs(
    *,
    statuses: Annotated[
        list[str] | None,
        typer.Option("--status", metavar="STATUS", help=f"Only those; repeatable. One of {', '.join(show.STATUSES)}."),
    ] = None,
    graph: Annotated[str | None, typer.Option("--graph", metavar="NAME", help="Only those of this graph.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The newest N.")] = 50,
    store: StorePath = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """List the runs of a store, the newest first."""
    _end(lambda output: show.runs(store, statuses or (), graph, limit, output), as_json=as_json)


@app.command("show")
def show_run(
    run_id: RunId,
    *,
    graph: Elsewhere = None,
    file: Annotated[
        str | None, typer.Option("--draw", metavar="FILE", help="Also draw what happened: .svg, .png, .dot or .mmd.")
    ] = None,
    store: StorePath = DEFAULT_STORE,
    key_env: KeyEnv = None,
    as_json: AsJson = False,
) -> None:
    """Show what happened in a run. Needs only the store; with --graph the state is shown too."""
    way = Way(run_id=run_id, store=store, graph=graph, key_env=key_env)
    _end(lambda output: show.show(way, file, output), as_json=as_json)


@app.command("demo", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def play(
    context: typer.Context,
    *,
    out: Annotated[str | None, typer.Option("--out", metavar="DIR", help="Where results go.")] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Answer the questions yourself.")] = False,
) -> None:
    """Watch a real workflow run, be killed, resume, ask, and finish. Needs a checkout of the repository."""
    arguments = [*(("--out", out) if out is not None else ()), *(("--ask",) if ask else ()), *context.args]
    _end(lambda _: demo.play(arguments))


@app.command("doctor")
def examine(
    *,
    model: Annotated[
        str, typer.Option("--model", metavar="MODEL", help="PROVIDER:NAME, or MODULE:OBJECT for a model made in code.")
    ],
    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="Where the provider is, if not where it always is.")
    ] = None,
    prompted: Annotated[
        bool, typer.Option("--prompted", help="Write tools into the prompt, for models that call none by themselves.")
    ] = False,
    tool: Annotated[
        str | None, typer.Option("--tool", metavar="MODULE:TOOL", help="A tool of yours to try; needs --ask.")
    ] = None,
    ask: Annotated[str | None, typer.Option("--ask", metavar="TEXT", help="A question that needs the tool.")] = None,
    seconds: Annotated[float, typer.Option("--seconds", metavar="S", help="How long each step may take.")] = 120.0,
    as_json: AsJson = False,
) -> None:
    """Ask a model plainly, then with a stub tool, then with a real one, and tell which link breaks."""
    # Loaded here, as it loads all of agents, models and tools, which no other command needs.
    doctor = importlib.import_module("flowagent.cli.doctor")
    wanted = doctor.Wanted(model=model, base_url=base_url, prompted=prompted, tool=tool, ask=ask, seconds=seconds)
    _end(lambda output: doctor.doctor(wanted, output), as_json=as_json)


# -- the end -----------------------------------------------------------------------------------------------------------


def _end(work: Callable[[Output], ExitCode], *, as_json: bool = False) -> None:
    """Do a command's work and leave with its exit code."""
    raise typer.Exit(_code(work, Output(as_json=as_json)))


def _code(work: Callable[[Output], ExitCode], output: Output) -> ExitCode:
    try:
        return work(output)
    except CommandError as error:
        return _failed(output, error, str(error), error.code)
    except FlowAgentError as error:
        return _failed(output, error, str(error), USAGE)
    except KeyboardInterrupt:
        output.tell("interrupted", style="yellow")
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  # whatever it is, a person wants to read one message
        return _failed(output, error, f"{told(error)}\n(--traceback shows all of it)", FAILED)


def _failed(output: Output, error: Exception, message: str, code: ExitCode) -> ExitCode:
    output.trace(error)
    output.tell(f"error: {message}", style="red")
    return code


def run_command_line(arguments: Sequence[str] | None = None) -> ExitCode:
    """Run a command line and return its exit code."""
    prepare_streams()
    try:
        app(_traceback_first(sys.argv[1:] if arguments is None else arguments), prog_name="flowagent")
    except SystemExit as end:
        if isinstance(end.code, str):
            Output().tell(f"error: {end.code}", style="red")
            return FAILED
        return cast("ExitCode", end.code or DONE)
    return DONE


def _traceback_first(words: Sequence[str]) -> list[str]:
    """The words with `--traceback` where it is understood, wherever it was written."""
    end = words.index("--") if "--" in words else len(words)
    rest = [word for word in words[:end] if word != "--traceback"]
    return [*(["--traceback"] if len(rest) < end else []), *rest, *words[end:]]
