"""`flowagent new`: makes a project of a template; the templates come with the package and are tested with it."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from flowagent.cli.output import Output, columns
from flowagent.cli.problems import DONE, CommandError, ExitCode

TEMPLATES: Final = Path(__file__).resolve().parent / "templates"
"""A folder for each template: `flow.py`, `test_flow.py` and `README.md`, which are copied as they are."""

MODEL: Final = "anthropic:claude-haiku-4-5"
"""The model of the templates, which `--model` replaces."""


def catalogue() -> dict[str, str]:
    """The templates by name, each with what it shows: the first line of its program."""
    folders = sorted(folder for folder in TEMPLATES.iterdir() if (folder / "flow.py").is_file())
    return {folder.name: _title(folder / "flow.py") for folder in folders}


def show(output: Output) -> ExitCode:
    """List the templates."""
    known = catalogue()
    if output.as_json:
        output.document(known)
    for line in columns([[name, what] for name, what in known.items()]):
        output.say(line)
    return DONE


def make(template: str, folder: str | None, model: str, output: Output) -> ExitCode:
    """Make a project.

    Args:
        template: the name of a template.
        folder: where it goes, by default a folder of the template's name; made if it is not there.
        model: `provider:model`, which the project asks.
        output: where is told what was made.

    Raises:
        CommandError: there is no such template or model, or a file is there already; nothing was written.
    """
    files = _files(template, _checked(model))
    into = Path(folder or template)
    _refuse_to_overwrite(into, files)
    try:
        into.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            with (into / name).open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as error:
        raise CommandError(f"the project cannot be written to `{into}`: {error.strerror}") from error
    if output.as_json:
        output.document({"template": template, "folder": str(into), "files": [*files]})
    output.say(f"made `{into}` of the template `{template}`: {', '.join(files)}")
    output.say(f"  cd {into}")
    output.say("  python -m pytest    # offline, with scripted answers")
    output.say(f"README.md tells how to ask {model}, and what to change.")
    return DONE


def _title(file: Path) -> str:
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def _files(template: str, model: str) -> dict[str, str]:
    known = catalogue()
    if template not in known:
        near = get_close_matches(template, known, n=1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        listed = ", ".join(f"`{one}`" for one in known)
        raise CommandError(f"there is no template `{template}`{hint}\nthere are {listed}")
    names = ("flow.py", "test_flow.py", "README.md")
    texts = {name: (TEMPLATES / template / name).read_text(encoding="utf-8") for name in names}
    return {name: text.replace(f'"{MODEL}"', f'"{model}"') for name, text in texts.items()}


def _checked(model: str) -> str:
    """A name of a model, which nothing is asked yet.

    Raises:
        ModelError: its provider is not known.
        CommandError: it could not stand in a program.
    """
    if not model.isprintable() or set(model) & set("\"'\\"):
        raise CommandError(f"--model {model!r} is no name of a model")
    importlib.import_module("flowagent.models.opening").open_model(model)  # late: no other command needs models
    return model


def _refuse_to_overwrite(into: Path, files: Mapping[str, str]) -> None:
    if into.exists() and not into.is_dir():
        raise CommandError(f"`{into}` is a file; name a folder")
    if there := [name for name in files if (into / name).exists() or (into / name).is_symlink()]:
        listed = ", ".join(f"`{name}`" for name in there)
        raise CommandError(f"`{into}` has {listed} already, and nothing is overwritten; name another folder")
