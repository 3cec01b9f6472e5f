"""Reads what a function says about itself: its parameters, whether it is async, and the targets it may choose."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It looks at users' types, which are only known when it runs.)
from __future__ import annotations

import enum
import functools
import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, get_args, get_origin

from flowagent.core.nodes import Function, Goto, Send
from flowagent.errors import GraphError


def function_of(graph: str, name: str, call: Any, *, takes: str = "the state") -> Function:
    """What a node's function takes, from its signature.

    Args:
        graph: the graph's name, for messages.
        name: the node's name, for messages.
        call: a function, method, partial or object with `__call__`.
        takes: what its first parameter is.

    Raises:
        GraphError: it is no function, or takes another number of arguments than one or two.
    """
    try:
        return Function(call=call, is_async=is_async(call), takes_context=takes_context(call, takes))
    except TypeError as error:
        raise GraphError(graph, [f"node `{name}` {error}"]) from None


def takes_context(call: Any, takes: str = "one thing") -> bool:
    """Whether a function is also called with the `Context`: its second parameter is needed, or annotated as one.

    Args:
        call: a function, method, partial or object with `__call__`.
        takes: what its first parameter is, for messages.

    Raises:
        TypeError: it is no function, or takes another number of arguments than one or two.
    """
    if not callable(call):
        raise TypeError(f"is no function but {call!r}")
    try:
        taken = _taken(call)
    except (TypeError, ValueError):  # builtins without a signature take one argument
        return False
    if taken.has_keywords or taken.needed > 2 or not (taken.positional or taken.has_rest):
        raise TypeError(f"takes {inspect.signature(call)}; it is called with {takes} and, if wanted, a Context")
    return taken.needed == 2 or (taken.positional >= 2 and "Context" in taken.second)


class _Taken(NamedTuple):
    """The parameters of a function.

    Args:
        positional: how many may be given by place.
        needed: how many of those have no default.
        has_rest: whether it takes any number by place.
        has_keywords: whether it needs some by name.
        second: the annotation of the second.
    """

    positional: int
    needed: int
    has_rest: bool
    has_keywords: bool
    second: str


def _taken(call: Any) -> _Taken:
    if type(call) is types.FunctionType and not call.__dict__:  # it wraps nothing, and tells no other signature
        return _taken_by(call)
    parameters = list(inspect.signature(call).parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return _Taken(
        positional=len(positional),
        needed=sum(p.default is p.empty for p in positional),
        has_rest=any(p.kind is p.VAR_POSITIONAL for p in parameters),
        has_keywords=any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters),
        second=str(positional[1].annotation) if len(positional) > 1 else "",
    )


def _taken_by(function: types.FunctionType) -> _Taken:
    """The same for a plain function, from its code: a twentieth of the time."""
    code = function.__code__
    second = code.co_varnames[1] if code.co_argcount > 1 else ""
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return _Taken(
        positional=code.co_argcount,
        needed=code.co_argcount - len(function.__defaults__ or ()),
        has_rest=bool(code.co_flags & inspect.CO_VARARGS),
        has_keywords=any(name not in (function.__kwdefaults__ or ()) for name in keywords),
        second=str(function.__annotations__.get(second, "")),
    )


def is_async(call: Any) -> bool:
    """Whether calling it gives a coroutine, seen through partials and callable objects."""
    while isinstance(call, functools.partial):
        call = call.func
    if type(call) is types.FunctionType:
        return inspect.iscoroutinefunction(call)
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004  # asks what it is, not whether


def hints_of(call: Any) -> dict[str, Any]:
    """The annotations of a function, resolved in its own module; one that does not resolve is left out.

    One name that exists only for type checkers must not spoil the others (PEP 563).
    """
    while isinstance(call, functools.partial):
        call = call.func
    is_plain = isinstance(call, (types.FunctionType, types.MethodType))
    target = call if is_plain else getattr(type(call), "__call__", call)  # noqa: B004  # its annotations are wanted
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:  # noqa: BLE001  # an annotation is user code and may raise anything
        return dict(_one_by_one(target))


def returned(call: Any) -> Any:
    """The annotation of what a function returns, as in `hints_of`; None where there is none."""
    if type(call) is types.FunctionType and not call.__dict__:
        hint = call.__annotations__.get("return")
        if isinstance(hint, str):
            try:
                hint = eval(_code(hint), call.__globals__)  # noqa: S307  # the function's own annotation, as typing does
            except Exception:  # noqa: BLE001  # it may stand for a name that is local, or be no expression
                return hints_of(call).get("return")
        if _is_resolved(hint):
            return hint
    return hints_of(call).get("return")


@functools.lru_cache(maxsize=256)
def _code(annotation: str) -> types.CodeType:
    return compile(annotation.lstrip(), "<annotation>", "eval", dont_inherit=True)


def _is_resolved(hint: Any) -> bool:
    """Whether no part of an annotation is text that is still to be read."""
    if isinstance(hint, (str, list, typing.ForwardRef)):  # (The parameters of a Callable stand in a list.)
        return False
    return get_origin(hint) is Literal or all(map(_is_resolved, get_args(hint)))


def hint_at(call: Any, place: int, otherwise: Any) -> Any:
    """The annotation of a parameter by its place, or something else where there is none that resolves."""
    try:
        names = list(inspect.signature(call).parameters)
    except (TypeError, ValueError):  # a builtin may not tell its parameters
        return otherwise
    return hints_of(call).get(names[place], otherwise) if place < len(names) else otherwise


def values_of(kind: Any) -> tuple[Any, ...]:
    """All values of a type that has few: a `Literal`, an enum or bool; none where there is no telling."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    if kind is bool:
        return (True, False)
    return tuple(kind) if isinstance(kind, type) and issubclass(kind, enum.Enum) else ()


def _one_by_one(target: Any) -> Iterator[tuple[str, Any]]:
    names = getattr(inspect.unwrap(target), "__globals__", {})
    closure = inspect.getclosurevars(target).nonlocals if inspect.isfunction(target) else {}
    for name, hint in getattr(target, "__annotations__", {}).items():
        if not isinstance(hint, str):
            yield name, hint
            continue
        try:
            yield name, eval(hint, names, dict(closure))  # noqa: S307  # the function's own annotation, as typing does
        except Exception:  # noqa: BLE001  # unresolvable: the caller names `to=` as the remedy
            continue


def targets_in(hint: Any, *, jumps: bool) -> tuple[str, ...]:
    """The names that an annotation declares, in its order.

    Args:
        hint: a return annotation.
        jumps: read only what stands inside `Goto[...]`, as for nodes; else every `Literal`, as for routers.

    Example:
        >>> targets_in(Literal["a", "END"] | list[Literal["b"]], jumps=False)
        ('a', 'END', 'b')
    """
    found: dict[str, None] = {}
    for name in _names_in(hint, inside=not jumps):
        found[name] = None
    return tuple(found)


def _names_in(hint: Any, *, inside: bool) -> Iterator[str]:
    origin = get_origin(hint)
    if origin is Literal:
        if inside:
            yield from (name for name in get_args(hint) if isinstance(name, str))
        return
    for arg in get_args(hint):
        yield from _names_in(arg, inside=inside or origin is Goto)


def mentions(hint: Any, kind: type) -> bool:
    """Whether a class stands anywhere in an annotation."""
    return hint is kind or get_origin(hint) is kind or any(mentions(arg, kind) for arg in get_args(hint))


def sends(hint: Any) -> bool:
    """Whether a router's annotation says that it returns `Send`s."""
    return mentions(hint, Send)


def summary_of(call: Callable[..., Any]) -> str:
    """The first paragraph of a function's docstring on one line."""
    if type(call) is types.FunctionType:
        doc = inspect.cleandoc(call.__doc__) if call.__doc__ else None
    else:
        doc = inspect.getdoc(call) if isinstance(call, types.MethodType) else None
    return " ".join(doc.split("\n\n")[0].split()) if doc else ""
