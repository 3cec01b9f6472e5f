"""Text that a terminal shows and does not obey."""

from __future__ import annotations

import re
from typing import Final

# Everything that moves the cursor, turns the reading direction or starts an escape sequence; not "\n" and "\t".
_UNSHOWABLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def safe(text: str) -> str:
    r"""Text with each character that a terminal would obey shown as an escape such as `\x1b`.

    >>> print(safe("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    return _UNSHOWABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def safe_json(text: str) -> str:
    r"""JSON text that says the same without any such character.

    >>> print(safe_json('["a\x9b2J"]'))
    ["a\u009b2J"]
    """
    return _UNSHOWABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
