"""Finds what `MODULE:GRAPH` or `FILE.py:GRAPH` names, and says clearly when there is nothing of that name."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from flowagent.cli.problems import CommandError, shown, told
from flowagent.core.graph import Graph

FORM: Final = "MODULE:GRAPH or FILE.py:GRAPH, such as `flow.py:graph`"

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")


class UserCodeError(CommandError):
    """User code raised while it was imported or called; the exception is `__cause__`."""


@dataclass(frozen=True, slots=True)
class Target:
    """`SOURCE:NAME`, taken apart.

    Args:
        source: a file or a dotted module.
        name: an attribute of it, dots included; "" if none was named.
        is_file: whether the source is a file.
    """

    source: str
    name: str
    is_file: bool


def parsed(text: str) -> Target:
    r"""Take a target apart at its last colon, which is not that of a drive.

    >>> parsed(r"C:\\proj\\flow.py:graph").name, parsed(r"C:\\proj\\flow.py").name
    ('graph', '')
    """
    source, colon, name = text.rpartition(":")
    if not colon or (len(source) == 1 and _DRIVE.match(text)):
        source, name = text, ""
    return Target(source, name.strip(), source.endswith(".py") or "/" in source or "\\" in source)


def load_graph(text: str) -> Graph[Any, Any]:
    """The graph that a target names.

    Raises:
        CommandError: there is none; the message lists those that there are.
        UserCodeError: importing it failed.
    """
    target = parsed(text)
    module = _module(target)
    if not target.name:
        raise CommandError(f"`{text}` names no graph; {_offer(target, module)}")
    found = _attribute(target, module)
    if not isinstance(found, Graph):
        kind = "a class" if inspect.isclass(found) else f"a `{type(found).__name__}`"
        raise CommandError(f"`{text}` is {kind}, not a Graph; {_offer(target, module)}")
    return found  # pyright: ignore[reportUnknownVariableType]  # of whatever state


def load_object(text: str, option: str) -> Any:
    """The value that a target names.

    Args:
        text: the target.
        option: the option that it was given by, for messages.

    Raises:
        CommandError: there is none.
        UserCodeError: importing it failed.
    """
    target = parsed(text)
    if not target.name:
        raise CommandError(f"{option} {text}: which object of it? Write {text}:NAME")
    return _attribute(target, _module(target))


def load_deps(text: str, option: str = "--deps") -> Any:
    """The value that a target names; a function or class is called without arguments and gives it.

    Args:
        text: the target.
        option: the option that it was given by, for messages.

    Raises:
        CommandError: there is none.
        UserCodeError: importing or calling it failed.
    """
    found = load_object(text, option)
    if not (inspect.isclass(found) or inspect.isroutine(found)):
        return found
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError) as error:
        raise CommandError(f"{option} {text}: it has to be callable without arguments ({error})") from error
    try:
        made = found()
    except Exception as error:
        raise UserCodeError(f"{option} {text}: calling it failed: {told(error)}") from error
    if inspect.iscoroutine(made):
        made.close()
        raise CommandError(f"{option} {text}: it is async; name a plain function, or an object")
    return made


# -- modules ---------------------------------------------------------------------------------------------------------


def _module(target: Target) -> ModuleType:
    if not target.source:
        raise CommandError(f"`:{target.name}` names no module; write {FORM}")
    return _from_file(target.source) if target.is_file else _by_name(target.source)


def _by_name(name: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise CommandError(f"`{name}` is neither a module nor a Python file; write {FORM}")
    _importable(Path.cwd())
    try:
        return _imported(name)
    except UserCodeError as error:
        missing = error.__cause__
        if isinstance(missing, ModuleNotFoundError) and missing.name and f"{name}.".startswith(f"{missing.name}."):
            raise CommandError(_no_module(name, missing.name)) from missing
        raise


def _no_module(name: str, missing: str) -> str:
    text = f"there is no module `{name}`"
    if missing != name:
        text += f" (no `{missing}`)"
    here = [path.stem for path in Path.cwd().glob("*.py")]
    near = get_close_matches(name, here, n=1)
    if (Path.cwd() / f"{name}.py").is_file():  # a package of that name, installed elsewhere, hides it
        return f"{text}; write `{name}.py:GRAPH` for the file"
    return text + (
        f"; did you mean `{near[0]}`?" if near else f"; it is looked for in {Path.cwd()} and where Python does"
    )


def _from_file(source: str) -> ModuleType:
    path = Path(source).expanduser()
    if not path.is_file():
        what = "is a directory" if path.is_dir() else "there is no such file"
        folder = path.parent if path.parent.is_dir() else Path.cwd()
        near = get_close_matches(path.name, [file.name for file in folder.glob("*.py")], n=1)
        raise CommandError(f"`{source}`: {what}" + (f"; did you mean `{folder / near[0]}`?" if near else ""))
    path = path.resolve()
    root, name = _dotted(path)
    _importable(Path.cwd())
    _importable(root)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    if root != path.parent:
        return _imported(name)
    return _executed(path, name if known is None and name not in sys.stdlib_module_names else f"_{name}_{hash(path):x}")


def _dotted(path: Path) -> tuple[Path, str]:
    """The directory to import a file from, and its name there: in a package, that of the package counts."""
    parts = [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.append(folder.name)
        folder = folder.parent
    if parts[0] == "__init__" and len(parts) > 1:
        del parts[0]
    return folder, ".".join(reversed(parts))


def _importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise UserCodeError(f"importing `{name}` failed: {told(error)}") from error


def _executed(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise CommandError(f"`{shown(path)}` is no Python file; write {FORM}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations of the file are looked up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UserCodeError(f"importing `{shown(path)}` failed: {told(error)}") from error
    return module


# -- attributes --------------------------------------------------------------------------------------------------------


def _attribute(target: Target, module: ModuleType) -> Any:
    found: Any = module
    for part in target.name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            near = get_close_matches(part, _names(found), n=1)
            hint = f"did you mean `{near[0]}`?" if near else _offer(target, module)
            raise CommandError(f"`{target.source}` has no `{target.name}`; {hint}") from None
    return found


def _names(holder: object) -> Iterable[str]:
    return [name for name in dir(holder) if not name.startswith("_")]


def _offer(target: Target, module: ModuleType) -> str:
    graphs = [name for name, value in vars(module).items() if isinstance(value, Graph)]
    if not graphs:
        return "it has no graphs"
    return "it has " + ", ".join(f"`{target.source}:{name}`" for name in graphs)
