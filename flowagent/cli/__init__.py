"""The command line `flowagent`. Only here are typer and rich loaded; nothing else of the package imports this."""

from flowagent.cli.app import main

__all__ = ["main"]
