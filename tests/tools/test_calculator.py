"""The calculator computes what Python would, and nothing else whatever the text."""

from __future__ import annotations

import math
import re
import time
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flowagent.errors import ToolError
from flowagent.tools.builtin.calculator import DEEPEST, LONGEST, MOST_BITS, calculate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("19 + 23", 42),
        ("2 ** 10 // 3 % 7", 2**10 // 3 % 7),
        ("-2 ** 2", -4),
        ("+(1 - 1)", 0),
        ("7 / 2", 3.5),
        ("1e3 + .5 + 2. + 1_000", 2002.5),
        ("3 × 4 ÷ 2 \u2212 1", 5.0),
        ("+".join(["1.5"] * 200), 300.0),
        (" 1 +\n 2\t", 3),
        ("round(100 / 3, 2)", 33.33),
        ("round(2.5)", 2),
        ("round(1234, -2)", 1200),
        ("log(8, 2) + log(e)", 4.0),
        ("sqrt(16) + cbrt(27)", 7.0),
        ("sum([1, 2, 3]) + sum(4, 5) + sum((6,))", 21),
        ("mean(1, 2) + median([3, 1, 2])", 3.5),
        ("max(1, 2.5, -3) - min([1, 2])", 1.5),
        ("gcd(12, 18) + lcm(4, 6)", 18),
        ("factorial(20)", math.factorial(20)),
        ("sin(pi / 2) + atan2(0, 1) + hypot(3, 4)", 6.0),
        ("1 ** 99999999999999999999 + 0 ** 10 ** 30", 1),
        ("(-1) ** 99999999999999999999", -1),
        ("0 ** 0", 1),
        ("2 ** -1", 0.5),
    ],
)
def test_an_expression_has_the_value_that_python_gives_it(expression: str, value: float) -> None:
    found = calculate(expression)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("expression", "value"), [("1 < 2 <= 2", True), ("1 < 2 < 2", False), ("0.1 + 0.2 == 0.3", False), ("3 != 4", True)]
)
def test_a_comparison_is_true_or_false(expression: str, value: bool) -> None:
    assert calculate(expression) is value


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("2 ^ 10", "`^` is no operator here: write `**` for a power, such as `2 ** 10`"),
        ("1/0", "`1/0` divides by zero"),
        ("0 ** -1", "`0 ** -1` divides by zero"),
        ("10.0 ** 400", "`10.0 ** 400` grows beyond the largest float, about 1.8e308"),
        ("1,200 * 3", "`1,200 * 3` is several values, not one; write numbers without commas, such as 1200.5"),
        ("(1,2) + 1", "is a list, and this needs one number"),
        ("2pi", "`2pi` at 0 is neither a number nor a name; is a `*` missing?"),
        ("0x1f", "`0x1f` at 0 is neither"),
        ("1if 2 else 3", "`1if` at 0 is neither"),
        ("x + 1", "`x` is not known; the names are pi, e, tau: put the number itself in its place"),
        ("sqrt", "`sqrt` is a function: give it its arguments, such as `sqrt(2)`"),
        ("cosinus(2)", "there is no function `cosinus`; the functions are abs, acos"),
        ("sqrt(-1)", "`sqrt(-1)` cannot be computed: "),
        ("sqrt()", "`sqrt()` cannot be computed: "),
        ("sqrt([1])", "`sqrt` takes numbers, not lists"),
        ("mean([])", "`mean()` cannot be computed: "),
        ("gcd(1.5)", "`gcd(1.5)` cannot be computed: "),
        ("(-8) ** 0.5", "-8 ** 0.5 is no real number: the base of a root must not be negative"),
        ("1e999", "the result is beyond the largest float"),
        ("round(5, -10 ** 9)", "the places to round to are a whole number from -400 to 400"),
        ("round(5, 1.5)", "the places to round to are a whole number"),
        ("factorial(10 ** 6)", "factorial takes a whole number from 0 to 1000"),
        ("True + 1", "True and False stand only in results: compare numbers"),
        ("not 1", "`not` and `~` are no arithmetic"),
        ("1 is 1", "`in` and `is` are no arithmetic"),
        ("1 << 3", "`@`, `<<`, `>>`, `&` and `|` are no arithmetic"),
        ("1 if 2 else 3", "is no arithmetic: use numbers, operators and functions only"),
        ("round(1.5, ndigits=0)", "is no arithmetic"),
        ("max(*[1, 2])", "is no arithmetic"),
        ("1 +", "`1 +` is no arithmetic expression: invalid syntax"),
        ("", "is no arithmetic expression"),
        ("15% of 80", "`15% of 80` is no arithmetic expression at character 8: invalid syntax"),
        ("'a' * 3", "texts cannot be computed with (the quote at 0): write numbers only"),
        ("1 + \u0661", "does not belong in arithmetic; names and numbers are plain ASCII"),
        ("1\x00", "does not belong in arithmetic"),
    ],
)
def test_what_cannot_be_computed_is_told_so_that_the_model_can_mend_it(expression: str, told: str) -> None:
    with pytest.raises(ToolError, match=re.escape(told)):
        calculate(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('true')",
        "__import__(1)",
        "().__class__",
        "(1).real",
        "pi.real",
        "[1][0]",
        "sqrt.__self__",
        "[x for x in (1, 2)]",
        "(lambda: 1)()",
        "(x := 1)",
        "abs(1)(2)",
        "f(1)",
        "open(1)",
        "eval(1)",
        "{1}",
        "...",
        "1j",
    ],
)
def test_nothing_but_arithmetic_is_computed(expression: str) -> None:
    """1H: the seed's calculator evals."""
    with pytest.raises(ToolError):
        calculate(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "9 ** 9 ** 9",
        "9 ** 9 ** 9 ** 9",
        "(2 ** 9999) * (2 ** 9999)",
        "factorial(999) * factorial(999)",
        "lcm(" + ",".join(str(n) for n in range(10**8, 10**8 + 100)) + ")",
        "-(2 ** 9999) ** 2",
        "1" * LONGEST,
        "1" * (LONGEST + 1),
        "(" * 500 + "1" + ")" * 500,
        "-" * 900 + "1",
        "+".join("1" * 400),
        "abs(" * 150 + "1" + ")" * 150,
        "2" + "**2" * 300,
    ],
)
def test_no_expression_hangs_or_fills_the_memory(expression: str) -> None:
    started = time.process_time()
    try:
        value = calculate(expression)
    except ToolError:
        pass
    else:
        assert isinstance(value, int)
        assert value.bit_length() <= MOST_BITS
    assert time.process_time() - started < 1


def test_the_bounds_are_told() -> None:
    with pytest.raises(ToolError, match="grows beyond 10000 bits"):
        calculate("9 ** 9 ** 9")
    with pytest.raises(ToolError, match=f"nested more than {DEEPEST} deep"):
        calculate("-" * 60 + "1")
    with pytest.raises(ToolError, match="has 1001 characters, and 1000 are the most"):
        calculate("1" * 1001)


def outcome(expression: str) -> tuple[int | float | None, str]:
    """What the calculator makes of a text: its value, or None and what is told."""
    try:
        return calculate(expression), ""
    except ToolError as error:
        return None, str(error)


NUMBERS = st.one_of(
    st.integers(0, 10**12).map(str),
    st.floats(0, 1e9, allow_nan=False).map(repr),
)
EXPRESSIONS = st.recursive(
    NUMBERS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%", "<", "==", ">="]), inner).map(
            lambda parts: "({} {} {})".format(*parts)
        ),
        st.tuples(inner, st.integers(0, 9)).map(lambda parts: f"({parts[0]} ** {parts[1]})"),
        inner.map(lambda one: f"(-{one})"),
        st.tuples(st.sampled_from(["abs", "round", "floor", "min"]), inner, inner).map(
            lambda parts: f"{parts[0]}({parts[1]}, {parts[2]})" if parts[0] == "min" else f"{parts[0]}({parts[1]})"
        ),
    ),
    max_leaves=12,
)


@given(EXPRESSIONS)
@settings(deadline=None)
def test_every_arithmetic_expression_has_python_s_value(expression: str) -> None:
    """Where Python computes a value within the bounds, so does the calculator, bit by bit; else it says so."""
    try:
        expected = eval(expression, {"abs": abs, "round": round, "floor": math.floor, "min": min})  # noqa: S307
    except (ZeroDivisionError, OverflowError):
        expected = None
    bounded = isinstance(expected, int | float) and math.isfinite(expected)
    value, told = outcome(expression)
    if value is None:
        assert not bounded or re.search("grows|beyond|characters", told), expression
    else:
        assert (value, type(value)) == (expected, type(expected))


@given(
    st.one_of(
        st.text(max_size=200),
        st.text("0123456789.eE+-*/%()[]<>=!_, abcfimnoprsx", max_size=200),
        st.lists(
            st.sampled_from(["1", "2.5", "e", "pi", "sqrt(", "max(", "(", ")", "**", "*", "-", ",", "9" * 30, "if"]),
            max_size=60,
        ).map("".join),
    )
)
@example("1_")
@example("0_x")
@example("1e")
@example("\\")
@settings(deadline=2_000)
def test_no_text_crashes_it_or_makes_it_warn(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, told = outcome(text)
    match value:
        case None:
            assert told
        case float():
            assert math.isfinite(value)
        case int():
            assert value.bit_length() <= MOST_BITS
