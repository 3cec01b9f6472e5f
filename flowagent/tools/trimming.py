"""Makes a result fit into a number of tokens, so that what is left is still valid JSON and says what is missing."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (It looks at plain data of any shape.)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from flowagent.models.estimating import tokens_about
from flowagent.tools.results import text_of_plain

NARROWER: Final = "ask for less at a time to see the rest"
"""What a model is told of how to get the rest, where the toolbox says nothing else."""

_LENGTHS: Final = (4000, 1000, 250, 60, 15)
"""How long texts inside of a result may be, tried from the longest."""

_FEW: Final = 5
"""As long as lists must be cut to fewer items than this, texts are cut more instead."""


def trimmed(plain: Any, most: int, rest: str, count: Callable[[str], int] = tokens_about) -> str:
    """A result as text of at most so many tokens.

    Args:
        plain: the whole as plain data.
        most: tokens.
        rest: how to get the rest, for the model.
        count: counts the tokens of a text.

    Returns:
        The text of the whole, if it fits. Else the beginning of a text; or JSON in which lists and texts end early.
        Each says in its place how much was left out, and at the end stands how to get it.
    """
    whole = text_of_plain(plain)
    if count(whole) <= most:
        return whole
    if isinstance(plain, (list, dict)):
        return _json(plain, most, rest, count)
    return _text(whole, most, rest, count)


def _text(whole: str, most: int, rest: str, count: Callable[[str], int]) -> str:
    def made(length: int) -> str:
        return f"{whole[:length]}\n[{len(whole) - length} of {len(whole)} characters left out: {rest}]"

    return made(_largest(len(whole) - 1, lambda length: count(made(length)) <= most))


def _json(plain: Any, most: int, rest: str, count: Callable[[str], int]) -> str:
    longest = _longest_list(plain)
    best = 0
    for length in _LENGTHS:
        cut = _Cut(length, rest)
        best = _largest(longest, lambda items, cut=cut: count(cut.whole(plain, items)) <= most)
        if best >= min(longest, _FEW) and count(cut.whole(plain, best)) <= most:
            return cut.whole(plain, best)
    smallest = _Cut(_LENGTHS[-1], rest)
    text = smallest.whole(plain, best)
    return text if count(text) <= most else smallest.nothing(plain)


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `most` that fits, where fitting ends once; 0 if none does."""
    low, high = 0, max(most, 0)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _longest_list(plain: Any) -> int:
    if isinstance(plain, dict):
        return max([len(plain), *map(_longest_list, plain.values())])
    if isinstance(plain, list):
        return max([len(plain), *map(_longest_list, plain)])
    return 0


@dataclass(frozen=True, slots=True)
class _Cut:
    """A way to cut: texts to a length, lists and objects to a number of items."""

    length: int
    rest: str

    def whole(self, plain: Any, items: int) -> str:
        made = self._cut(plain, items)
        if isinstance(made, list):
            return text_of_plain([*made, f"[{self.rest}]"])
        return text_of_plain({**made, "[cut]": self.rest})

    def nothing(self, plain: Any) -> str:
        """What is left where nothing fits."""
        if isinstance(plain, list):
            return text_of_plain([f"[all {len(plain)} items left out: {self.rest}]"])
        return text_of_plain({"[cut]": f"all {len(plain)} entries left out: {self.rest}"})

    def _cut(self, plain: Any, items: int) -> Any:
        match plain:
            case str() if len(plain) > self.length:
                return f"{plain[: self.length]}[{len(plain) - self.length} characters left out]"
            case list():
                kept = [self._cut(one, items) for one in plain[:items]]
                return (
                    kept if len(plain) <= items else [*kept, f"[{len(plain) - items} of {len(plain)} items left out]"]
                )
            case dict():
                made = {key: self._cut(plain[key], items) for key in list(plain)[:items]}
                return made if len(plain) <= items else {**made, "[...]": f"{len(plain) - items} entries left out"}
            case _:
                return plain
