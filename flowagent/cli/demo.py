"""`flowagent demo`: plays the demo of the examples, which come with a checkout and not with the package."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from flowagent.cli.problems import DONE, FAILED, CommandError, ExitCode

_ROOT = Path(__file__).resolve().parents[2]


def play(arguments: Sequence[str], *, root: Path = _ROOT) -> ExitCode:
    """Play the demo of the checkout that this package is in.

    Raises:
        CommandError: this is no checkout.
    """
    if not (root / "examples" / "triage" / "demo.py").is_file():
        raise CommandError(
            "the demo comes with the source: clone the repository of flowagent and type `make demo` there "
            f"(this flowagent is installed in {root}, without examples)"
        )
    # First, so that no other `examples` is found; the folder that we are in may have some.
    sys.path.insert(0, str(root))
    driver = importlib.import_module("examples.triage.demo")
    return DONE if driver.main(list(arguments)) == 0 else FAILED
