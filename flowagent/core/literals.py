"""What can be read off source code and texts without running them: returned keys, and placeholders of questions."""

from __future__ import annotations

import ast
import inspect
import string
import textwrap
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

PARSING: Final = threading.RLock()
"""Held by whoever makes a syntax tree; again by what the collector may run meanwhile.

CPython 3.11 counts the depth of all trees that are being made in one place. If the collector runs Python code while it
makes one, another thread may get its turn, and both calls end with a `SystemError`.
"""


@lru_cache(maxsize=1024)
def returned_keys(call: Callable[..., Any]) -> tuple[tuple[str, int], ...]:
    """The literal keys of the dicts that a function returns, with their lines; none where there is no source.

    Only what is sure counts: `return {...}`, `return Goto(x, {...})`, and not what stands in functions inside.
    """
    try:
        lines, first = inspect.getsourcelines(call)
        with PARSING:
            tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return ()
    body = tree.body[0] if tree.body else None
    if not isinstance(body, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return ()
    return tuple(
        (key.value, first + key.lineno - 1)
        for found in _returns(body)
        for key in _keys(found.value)
        if isinstance(key.value, str)
    )


def _returns(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.Return]:
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop(0)
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            todo[:0] = ast.iter_child_nodes(node)  # in the order of the source


def _keys(value: ast.expr | None) -> Iterator[ast.Constant]:
    if isinstance(value, ast.Dict):
        yield from (key for key in value.keys if isinstance(key, ast.Constant))
    elif isinstance(value, ast.IfExp):
        yield from _keys(value.body)
        yield from _keys(value.orelse)
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "Goto":
        for argument in [*value.args[1:], *(k.value for k in value.keywords if k.arg == "update")]:
            yield from _keys(argument)


def placeholders(text: str) -> tuple[str, ...]:
    """The fields that a question asks with.

    Raises:
        ValueError: its braces do not fit.

    >>> placeholders("Refund {amount} to {customer.name}?")
    ('amount', 'customer')
    """
    names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    return tuple(dict.fromkeys(name.split(".")[0].split("[")[0] for name in names))
