"""The command line `flowagent`. Only here are typer and rich loaded; nothing else of the package imports this."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of the process; returns its exit code."""
    try:
        from flowagent.cli.app import run_command_line  # noqa: PLC0415  # so that Ctrl-C meanwhile is no traceback
    except KeyboardInterrupt:
        return 130
    return run_command_line(arguments)
