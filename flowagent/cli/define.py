"""Checks and draws definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

from flowagent.cli import targets
from flowagent.cli.output import Output, counted
from flowagent.cli.problems import DONE, FAILED, CommandError, ExitCode
from flowagent.core.graph import Graph
from flowagent.core.topology import Topology
from flowagent.errors import GraphError
from flowagent.render import Diagram

Format = Literal["svg", "png", "dot", "mmd"]

_SUFFIXES: Final[dict[str, Format]] = {".svg": "svg", ".png": "png", ".dot": "dot", ".gv": "dot", ".mmd": "mmd"}


def check(target: str, output: Output) -> ExitCode:
    """Tell all that is wrong with a definition, and what is odd."""
    try:
        with output.quiet():
            graph = targets.load_graph(target)
            warnings = graph.check()
    except GraphError as error:
        return _faulty(error.graph, error.faults, output)
    except targets.UserCodeError as error:
        if not isinstance(error.__cause__, GraphError):
            raise
        return _faulty(error.__cause__.graph, error.__cause__.faults, output)
    if output.as_json:
        output.document(_verdict(graph.name, (), warnings))
        return DONE
    size = f"{counted(_nodes(graph.topology), 'node')}, {counted(len(graph.topology.edges), 'edge')}"
    output.say(f"graph `{graph.name}`: no faults ({size})", style="green")
    for warning in warnings:
        output.say(f"  warning: {warning}", style="yellow")
    return DONE


def _faulty(graph: str, faults: tuple[str, ...], output: Output) -> ExitCode:
    if output.as_json:
        output.document(_verdict(graph, faults, ()))
        return FAILED
    output.say(f"graph `{graph}`: {counted(len(faults), 'fault')}", style="red")
    for fault in faults:
        output.say(f"  fault: {fault}")
    return FAILED


def _verdict(graph: str, faults: tuple[str, ...], warnings: tuple[str, ...]) -> dict[str, Any]:
    return {"graph": graph, "ok": not faults, "faults": list(faults), "warnings": list(warnings)}


def _nodes(topology: Topology) -> int:
    return len(topology.places) - 2  # START and END


def draw(target: str, file: str | None, form: Format | None, output: Output) -> ExitCode:
    """Draw a definition into a file, or as text to stdout."""
    wanted = form or _form_of(file)
    if file is None and wanted == "png":
        raise CommandError("a PNG needs a file: add -o FILE.png")
    with output.quiet():
        graph: Graph[Any, Any] = targets.load_graph(target)
        diagram = graph.draw()
    if file is None:
        output.data(content(diagram, wanted))
        return DONE
    save(diagram, file, wanted, output)
    return DONE


def _form_of(file: str | None) -> Format:
    if file is None:
        return "dot"
    form = _SUFFIXES.get(Path(file).suffix.lower())
    if form is None:
        raise CommandError(f"-o {file}: which format? Use one of {', '.join(_SUFFIXES)}, or say it with --format")
    return form


def content(diagram: Diagram, form: Format) -> bytes:
    """A picture in one of its forms."""
    match form:
        case "svg":
            return diagram.svg().encode()
        case "png":
            return diagram.png()
        case "mmd":
            return diagram.mermaid().encode()
        case "dot":
            return diagram.dot().encode()


def save(diagram: Diagram, file: str, form: Format | None, output: Output) -> None:
    """Write a picture to a file and say so on stderr.

    Raises:
        DrawError: it cannot be laid out, or the file cannot be written.
        CommandError: likewise, for a suffix that says another format.
    """
    if form is None or _SUFFIXES.get(Path(file).suffix.lower()) == form:
        diagram.save(file)
    else:
        data = content(diagram, form)
        try:
            Path(file).write_bytes(data)
        except (OSError, ValueError) as error:
            raise CommandError(f"cannot save `{file}`: {error}") from error
    output.tell(f"saved {file}")
