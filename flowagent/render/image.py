"""DOT laid out as SVG or PNG: by the system's `dot` when there is one, else by the `graphviz-pure` package.

Both are programs, run as such: text in, bytes out, no shell, a time limit. A crash in one harms nobody.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from flowagent.errors import DrawError

Format = Literal["svg", "png"]

LONGEST_LAYOUT = 60.0
_LONGEST_REPORT = 1000
_OPTIONS: dict[Format, tuple[str, ...]] = {"svg": ("-Tsvg",), "png": ("-Tpng", "-Gdpi=192")}
# A wrapper that prints something else and claims success must not end up in a file called `.png`.
_LOOKS_LIKE: dict[Format, bytes] = {"svg": b"<svg", "png": b"\x89PNG"}
_HEAD = 10_000
_REMEDY = (
    "Install Graphviz (`apt-get install graphviz`, `brew install graphviz`, `winget install graphviz`) "
    "or `pip install graphviz-pure`; `.dot()` and `.mermaid()` need neither."
)


@dataclass(frozen=True, slots=True)
class _Failed:
    program: str
    reason: str


def layout(dot: str, form: Format) -> bytes:
    """Lay out DOT text.

    Args:
        dot: the text.
        form: what to make of it.

    Raises:
        DrawError: no layouter is installed, or none could draw this text; says what each of them said.
    """
    failures: list[_Failed] = []
    for program in layouters():
        drawn = _run(program, dot, form)
        if isinstance(drawn, bytes):
            return drawn
        failures.append(drawn)
    if not failures:
        raise DrawError(f"no program to lay out the picture as {form.upper()} was found. {_REMEDY}")
    reports = "\n".join(f"  - {failed.program}: {failed.reason}" for failed in failures)
    raise DrawError(f"the picture could not be laid out as {form.upper()}:\n{reports}\n{_REMEDY}")


def layouters() -> Iterator[str]:
    """The programs to try, best first; each is looked for only when it is asked for."""
    system = shutil.which("dot")
    if system:
        yield system
    pure = _pure()
    if pure:
        yield pure


def _pure() -> str | None:
    """Find the program of `graphviz-pure`; a virtual environment that is not activated has it off the PATH."""
    try:
        files = metadata.files("graphviz-pure") or []
    except metadata.PackageNotFoundError:
        files = []
    installed = [Path(str(file.locate())) for file in files if Path(file.name).stem == "graphviz-pure"]
    installed.append(Path(sysconfig.get_path("scripts"), "graphviz-pure"))
    for program in installed:
        if program.is_file():
            return str(program.resolve())
    return shutil.which("graphviz-pure")


def _run(program: str, dot: str, form: Format) -> bytes | _Failed:
    command = [program, *_OPTIONS[form]]
    try:
        done = subprocess.run(command, input=dot.encode(), capture_output=True, timeout=LONGEST_LAYOUT, check=False)
    except subprocess.TimeoutExpired:
        return _Failed(program, f"not done within {LONGEST_LAYOUT:g} s; a smaller picture may help")
    except OSError as error:
        return _Failed(program, f"cannot be started: {error}")
    if done.returncode == 0 and _LOOKS_LIKE[form] in done.stdout[:_HEAD]:
        return done.stdout
    said = done.stderr.decode(errors="replace").strip() or "(it said nothing)"
    return _Failed(program, f"exit code {done.returncode}: {said[:_LONGEST_REPORT]}")
