"""Arithmetic for models that cannot do it: an expression is parsed, and only what stands in a table here is computed.

Python's own parser reads the text, after a look at its length, its nesting and its characters; what it makes of it is
walked here, node by node, and every kind of node that is not named is refused. Nothing is ever compiled or evaluated.
A library would bring names and attributes that had to be switched off again, and no bounds on what a sum may grow to.

The rule for numbers is Python's: whole numbers are exact, `/` and everything with a point or an exponent is a 64-bit
float (so `0.1 + 0.2` is `0.30000000000000004`; `round` helps), and a comparison gives true or false.

Example:
    >>> calculate("(19 + 23) * 10 ** 20"), calculate("round(100 / 3, 2)"), calculate("2 < 1")
    (4200000000000000000000, 33.33, False)
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
import re
import statistics
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from flowagent.core.literals import PARSING
from flowagent.errors import ToolError
from flowagent.tools.tool import Tool, tool

Number: TypeAlias = int | float
"""What comes of an expression; a bool, which is an int, of a comparison."""

LONGEST: Final = 1_000
"""The most characters of an expression."""

DEEPEST: Final = 50
"""The most levels of an expression: brackets, calls and operators that stand within one another."""

MOST_BITS: Final = 10_000
"""The most bits of a whole number, some 3,000 digits."""

_MOST_PLACES: Final = 400
"""The most places that `round` takes, either way of the point: more than a float has."""

_MOST_FACTORIAL: Final = 1_000

_FOREIGN: Final = re.compile(r"[^0-9A-Za-z_ \t\r\n.,+\-*/%()\[\]<>=!]")
_GLUED: Final = re.compile(r"(?<![\w.])(?:\d[\d_]*+\.?[\d_]*+|\.\d[\d_]*+)(?:[eE][+-]?\d+)?+[A-Za-z_]\w*")
_SPELLINGS: Final = str.maketrans({"×": "*", "·": "*", "÷": "/", "\u2212": "-", "–": "-", "\u00a0": " "})

CONSTANTS: Final[Mapping[str, float]] = MappingProxyType({"pi": math.pi, "e": math.e, "tau": math.tau})
"""The names that stand for numbers."""


def calculate(expression: str) -> Number:
    """Compute an arithmetic expression exactly as written, such as `(1200 - 35) * 1.19` or `sqrt(2) > 1.4`.

    Operators: + - * / // % ** and < <= > >= == !=. Functions: abs, round, floor, ceil, trunc, sqrt, cbrt, exp, log (of
    base e, or `log(x, base)`), log2, log10, sin, cos, tan, asin, acos, atan, atan2, sinh, cosh, tanh, hypot, degrees,
    radians, min, max, sum, mean, median, gcd, lcm, factorial. Constants: pi, e, tau. Angles are in radians. Write
    numbers without separators of thousands, and a percentage as a fraction: `0.15 * 80`.

    Args:
        expression: what to compute.

    Returns:
        A whole number, a 64-bit float, or for a comparison true or false.

    Raises:
        ToolError: the expression cannot be read, computes nothing that there is, or grows too large.
    """
    try:
        value = _value(_parsed(expression), 0)
    except ZeroDivisionError as error:
        raise ToolError(f"`{expression}` divides by zero") from error
    except OverflowError as error:
        raise ToolError(f"`{expression}` grows beyond the largest float, about 1.8e308") from error
    if isinstance(value, tuple):
        raise ToolError(f"`{expression}` is several values, not one; write numbers without commas, such as 1200.5")
    return value


calculator: Final[Tool[[str], Number]] = tool(calculate, untrusted=False)
"""`calculate` as a tool: what it returns is no text from outside."""


# -- reading ---------------------------------------------------------------------------------------------------------


def _parsed(expression: str) -> ast.expr:
    if len(expression) > LONGEST:
        raise ToolError(
            f"the expression has {len(expression)} characters, and {LONGEST} are the most: compute in steps"
        )
    text = expression.translate(_SPELLINGS).strip()
    if foreign := _FOREIGN.search(text):
        raise ToolError(_refused(foreign[0], foreign.start()))
    # Python's tokenizer would take `1if x` apart with a warning, and `0x1f` as a number that no arithmetic needs.
    if glued := _GLUED.search(text):
        raise ToolError(f"`{glued[0]}` at {glued.start()} is neither a number nor a name; is a `*` missing?")
    try:
        with PARSING:
            return ast.parse(" ".join(text.split()), mode="eval").body
    except SyntaxError as error:
        place = f" at character {error.offset}" if error.offset else ""
        raise ToolError(f"`{text}` is no arithmetic expression{place}: {error.msg}") from error
    except (MemoryError, RecursionError) as error:  # how the parser says that brackets are nested too deeply
        raise ToolError(f"the expression is nested more than {DEEPEST} deep: compute it in steps") from error


def _refused(character: str, place: int) -> str:
    match character:
        case "^":
            return "`^` is no operator here: write `**` for a power, such as `2 ** 10`"
        case '"' | "'":
            return f"texts cannot be computed with (the quote at {place}): write numbers only"
        case _:
            return f"`{character}` at {place} does not belong in arithmetic; names and numbers are plain ASCII"


# -- walking ---------------------------------------------------------------------------------------------------------

_Value: TypeAlias = Number | tuple[Number, ...]


def _value(node: ast.expr, depth: int) -> _Value:
    if depth > DEEPEST:
        raise ToolError(f"the expression is nested more than {DEEPEST} deep: compute it in steps")
    match node:
        case ast.Constant(value=bool()):
            raise ToolError("True and False stand only in results: compare numbers")
        case ast.Constant(value=int() | float() as number):
            return _bounded(number)
        case ast.Name(id=name):
            return _constant(name)
        case ast.UnaryOp(op=op, operand=operand):
            return _bounded(_unary(op)(_number(operand, depth + 1)))
        case ast.BinOp():
            return _chain(node, depth)
        case ast.Compare():
            return _compared(node, depth)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return _called(name, [_value(arg, depth + 1) for arg in args])
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return tuple(_number(item, depth + 1) for item in items)
        case _:
            raise ToolError(f"`{ast.unparse(node)[:80]}` is no arithmetic: use numbers, operators and functions only")


def _number(node: ast.expr, depth: int) -> Number:
    value = _value(node, depth)
    if isinstance(value, tuple):
        raise ToolError(
            f"`{ast.unparse(node)[:80]}` is a list, and this needs one number; lists go into sum, mean, median, min or "
            "max, and numbers are written without commas"
        )
    return value


def _constant(name: str) -> float:
    if name in CONSTANTS:
        return CONSTANTS[name]
    if name in _FUNCTIONS:
        raise ToolError(f"`{name}` is a function: give it its arguments, such as `{name}(2)`")
    raise ToolError(f"`{name}` is not known; the names are {', '.join(CONSTANTS)}: put the number itself in its place")


def _unary(op: ast.unaryop) -> Callable[[Any], Number]:
    match op:
        case ast.UAdd():
            return operator.pos
        case ast.USub():
            return operator.neg
        case _:
            raise ToolError("`not` and `~` are no arithmetic: use numbers, operators and functions only")


_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = MappingProxyType(
    {
        ast.Lt: operator.lt,
        ast.LtE: operator.le,
        ast.Gt: operator.gt,
        ast.GtE: operator.ge,
        ast.Eq: operator.eq,
        ast.NotEq: operator.ne,
    }
)


def _compared(node: ast.Compare, depth: int) -> bool:
    """`a < b < c` as Python means it: each is computed, and all must hold."""
    values = [_number(one, depth + 1) for one in (node.left, *node.comparators)]
    for op in node.ops:
        if type(op) not in _COMPARISONS:
            raise ToolError("`in` and `is` are no arithmetic: compare numbers with < <= > >= == !=")
    pairs = itertools.pairwise(values)
    return all(_COMPARISONS[type(op)](*pair) for op, pair in zip(node.ops, pairs, strict=True))


def _chain(node: ast.BinOp, depth: int) -> Number:
    """`a + b - c ...` from the left, on one level however long it is: a sum of many numbers is not nested."""
    steps = [node]
    while isinstance(steps[-1].left, ast.BinOp):
        steps.append(steps[-1].left)
    value = _number(steps[-1].left, depth + 1)
    for step in reversed(steps):
        value = _binary(step.op, value, _number(step.right, depth + 1))
    return value


def _binary(op: ast.operator, left: Number, right: Number) -> Number:
    match op:
        case ast.Add():
            return _bounded(left + right)
        case ast.Sub():
            return _bounded(left - right)
        case ast.Mult():
            return _bounded(left * right)  # of factors that are bounded themselves
        case ast.Div():
            return _bounded(left / right)
        case ast.FloorDiv():
            return _bounded(left // right)
        case ast.Mod():
            return _bounded(left % right)
        case ast.Pow():
            return _power(left, right)
        case _:
            raise ToolError("`@`, `<<`, `>>`, `&` and `|` are no arithmetic: use + - * / // % **")


def _power(base: Number, exponent: Number) -> Number:
    # Of whole numbers the size is known beforehand, and looked at beforehand: 9 ** 9 ** 9 would never end.
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1:
        if exponent > 0 and (abs(base).bit_length() - 1) * exponent > MOST_BITS:
            raise ToolError(_too_large())
    elif isinstance(base, int) and isinstance(exponent, int) and exponent >= 0:
        return base ** min(exponent, 2 + exponent % 2)  # 0, 1 and -1, whatever the exponent
    value: int | float | complex = base**exponent
    if isinstance(value, complex):
        raise ToolError(f"{base} ** {exponent} is no real number: the base of a root must not be negative")
    return _bounded(value)


def _bounded(value: Number) -> Number:
    if isinstance(value, int):
        if value.bit_length() > MOST_BITS:
            raise ToolError(_too_large())
    elif not math.isfinite(value):
        raise ToolError("the result is beyond the largest float, about 1.8e308, or no number at all")
    return value


def _too_large() -> str:
    return f"a whole number grows beyond {MOST_BITS} bits, some 3,000 digits: compute with floats, such as `9.0 ** 99`"


# -- functions -------------------------------------------------------------------------------------------------------


def _called(name: str, args: list[_Value]) -> Number:
    function = _FUNCTIONS.get(name)
    if function is None:
        raise ToolError(f"there is no function `{name}`; the functions are {', '.join(sorted(_FUNCTIONS))}")
    if name in _OF_LISTS:
        args = [number for arg in args for number in (arg if isinstance(arg, tuple) else (arg,))]
    elif any(isinstance(arg, tuple) for arg in args):
        raise ToolError(f"`{name}` takes numbers, not lists; lists go into {', '.join(sorted(_OF_LISTS))}")
    try:
        return _bounded(function(*args))
    except (TypeError, ValueError, statistics.StatisticsError) as error:
        shown = ", ".join(str(arg) for arg in args)[:80]
        raise ToolError(f"`{name}({shown})` cannot be computed: {error}") from error


def _round(number: Number, places: Number = 0) -> Number:
    """Half to even, as Python; without places the result is whole."""
    if not isinstance(places, int) or abs(places) > _MOST_PLACES:
        raise ToolError(f"the places to round to are a whole number from -{_MOST_PLACES} to {_MOST_PLACES}")
    return round(number, places) if places else round(number)


def _factorial(number: Number) -> int:
    if not isinstance(number, int) or number > _MOST_FACTORIAL:
        raise ToolError(f"factorial takes a whole number from 0 to {_MOST_FACTORIAL}")
    return math.factorial(number)


def _sum(*numbers: Number) -> Number:
    return sum(numbers)


def _cbrt(number: Number) -> float:
    return math.cbrt(number)


def _mean(*numbers: Number) -> Number:
    return statistics.mean(numbers)


def _median(*numbers: Number) -> Number:
    return statistics.median(numbers)


def _lcm(*numbers: int) -> int:
    """A least common multiple that stays within bounds while it grows."""
    multiple = 1
    for number in numbers:
        multiple = math.lcm(multiple, number)
        _bounded(multiple)
    return multiple


_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "abs": abs,
        "round": _round,
        "floor": math.floor,
        "ceil": math.ceil,
        "trunc": math.trunc,
        "sqrt": math.sqrt,
        "cbrt": _cbrt,
        "exp": math.exp,
        "log": math.log,
        "log2": math.log2,
        "log10": math.log10,
        "sin": math.sin,
        "cos": math.cos,
        "tan": math.tan,
        "asin": math.asin,
        "acos": math.acos,
        "atan": math.atan,
        "atan2": math.atan2,
        "sinh": math.sinh,
        "cosh": math.cosh,
        "tanh": math.tanh,
        "hypot": math.hypot,
        "degrees": math.degrees,
        "radians": math.radians,
        "min": min,
        "max": max,
        "sum": _sum,
        "mean": _mean,
        "median": _median,
        "gcd": math.gcd,
        "lcm": _lcm,
        "factorial": _factorial,
    }
)

_OF_LISTS: Final = frozenset({"min", "max", "sum", "mean", "median", "gcd", "lcm", "hypot"})
"""The functions that take any number of numbers, one by one or as a list."""
