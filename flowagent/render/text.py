r"""Making text from data safe to draw; what a label looks like is decided elsewhere.

Labels, questions and errors are data: none of it may become markup, an escape sequence or broken XML. What
cannot be drawn (control characters, lone surrogates, marks that turn the reading direction) is shown as a
Python escape such as `\x01`, so that it is seen and two names that differ stay different.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata

import graphviz

ELLIPSIS = "…"
LONGEST_NAME = 48
MOST_LINES = 3
LONGEST_TOOLTIP = 2000
LINE = 38

_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNDRAWABLE_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})


def name_text(data: str) -> str:
    """Show a name on one line, as typed; only what would not fit or cannot be drawn is changed."""
    text = shortened(visible(data[: LONGEST_NAME + 1]), LONGEST_NAME)
    return text if text.strip() else f'"{text}"'


def prose_lines(data: str) -> tuple[str, ...]:
    """Show a question or an error as a few short lines; its own line breaks become spaces."""
    words = visible(shortened(" ".join(data.split()), MOST_LINES * LINE * 2))
    return tuple(textwrap.wrap(words, LINE, max_lines=MOST_LINES, placeholder=ELLIPSIS))


def tooltip_text(data: str) -> str:
    """Show a longer text with its line breaks kept."""
    return shortened("\n".join(visible(line) for line in data[: LONGEST_TOOLTIP + 1].splitlines()), LONGEST_TOOLTIP)


def visible(data: str) -> str:
    """Replace each character that cannot be drawn by its Python escape."""
    return "".join(_escape(char) if _is_undrawable(char) else char for char in data)


def shortened(text: str, longest: int) -> str:
    """Cut a text that is too long and say so by an ellipsis."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + ELLIPSIS


def markup(text: str) -> str:
    """Escape drawable text for the inside of a label of ours that is written as markup."""
    # Graphviz replaces `\N`, `\G` and the like by names of its own, in markup too; `\\` is one backslash.
    # And it refuses a lone `]` between two tags, for it waits for what might follow it.
    return "&#93;" if text == "]" else _entities(text.replace("\\", "\\\\"))


def tooltip_attribute(text: str) -> str:
    """Escape drawable text, line breaks included, for a quoted tooltip."""
    # Graphviz goes through the backslashes of a tooltip twice, so that four of them are one.
    lines = _entities(text.replace("\\", "\\" * 4)).replace('"', "&quot;").replace("\n", "\\n")
    # Marked, so that the graphviz package never takes `<...>` for markup.
    return graphviz.nohtml(lines)


def mermaid_text(text: str) -> str:
    """Escape drawable text for a quoted Mermaid label: no markup, icon, formula, directive or list."""
    escaped = re.sub(r"""["#&<>;`{}|*~^%\\$:]""", _code, text)
    # A label that starts like a list ("1. ", "- ") would be refused by Mermaid's Markdown.
    return re.sub(r"^(\s*\d*)([-+.)])", lambda match: match[1] + f"#{ord(match[2])};", escaped)


def _entities(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(match: re.Match[str]) -> str:
    return f"#{ord(match[0])};"


def _is_undrawable(char: str) -> bool:
    if char < "\x7f":
        return char < " "
    return unicodedata.category(char) in _UNDRAWABLE_CATEGORIES or char in _TURNING or _is_noncharacter(char)


def _is_noncharacter(char: str) -> bool:
    return ord(char) & 0xFFFE == 0xFFFE or "\ufdd0" <= char <= "\ufdef"


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
