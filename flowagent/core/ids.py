"""Task ids: made from causality alone, so that they are the same under every schedule and after every crash.

`check@2.3` is the third time round of `check` within visit 2 of the node that dominates it; `read@1[4]` an item,
`research@1/search@2` a task of a nested graph, `h@1~(read@1)` what `read@1` triggered.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

_RESERVED = re.compile(r"[%@/\[\]()~]")
_LONGEST = 120


def encoded(name: str) -> str:
    """A node's name as it stands in ids: the characters that ids use themselves are percent-encoded.

    >>> encoded("50% (draft)")
    '50%25 %28draft%29'
    """
    return _RESERVED.sub(lambda match: f"%{ord(match[0]):02X}", name)


def triggered(number: str, trigger: str) -> str:
    """The number of a task that runs once for each arrival: its dominator's visit, and what set it off."""
    long = len(number) + len(trigger) + 3 > _LONGEST
    mark = hashlib.blake2b(f"{number}~({trigger})".encode(), digest_size=10).hexdigest() if long else trigger
    return f"{number}~({mark})" if not long or len(number) <= _LONGEST else f"~({mark})"


def task_id(prefix: str, name: str, number: str) -> str:
    """The id of a task: where its graph stands, the node (already encoded), and which visit.

    >>> task_id("research@1/", "search", "2")
    'research@1/search@2'
    >>> task_id("", "ask", "")
    'ask'
    """
    return f"{prefix}{name}@{number}" if number else prefix + name


def item_id(task: str, index: int) -> str:
    """The id of one item of a mapped task."""
    return f"{task}[{index}]"


def around(task: str) -> Iterator[str]:
    """The ids of the tasks in whose graphs a task is nested, outermost first.

    >>> list(around("research@1[2]/search@2/read~(a/b)"))
    ['research@1[2]', 'research@1[2]/search@2']
    """
    depth = 0
    for at, character in enumerate(task):
        depth += (character == "(") - (character == ")")
        if character == "/" and not depth:
            yield task[:at]


def natural(task: str) -> list[tuple[str, int]]:
    """A sort key for ids in which numbers count as numbers.

    >>> sorted(["a[10]", "a[9]", "a"], key=natural)
    ['a', 'a[9]', 'a[10]']
    """
    return [(text, int(number or -1)) for text, number in re.findall(r"([^0-9]*)([0-9]*)", task)]


def path_of(task: str) -> tuple[str, ...]:
    """The names of the nodes that an id leads through, outermost first; the last is the task's own.

    >>> path_of("research@1[2]/search@2~(read@1/a)")
    ('research', 'search')
    """
    segments: list[str] = [""]
    depth = 0
    for character in task:
        depth += (character == "(") - (character == ")")
        if character == "/" and not depth:
            segments.append("")
        else:
            segments[-1] += character
    return tuple(_decoded(re.split(r"[@\[~]", segment, maxsplit=1)[0]) for segment in segments)


def _decoded(code: str) -> str:
    return re.sub(r"%([0-9A-F]{2})", lambda match: chr(int(match[1], 16)), code)
