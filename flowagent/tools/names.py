"""Names of tools: any text for people, `[a-zA-Z0-9_-]{1,64}` for providers."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache

_LONGEST = 64
_DIGEST = 8


@lru_cache(maxsize=4096)
def wire_name(name: str) -> str:
    """The name that providers are given: the same for the same name, in every process.

    What they do not take becomes `_`. Where letters or digits would be lost, or the name is too long, a digest of the
    whole name keeps it apart from others.

    Example:
        >>> wire_name("R&D / v2"), wire_name("Café au lait"), wire_name("搜索")
        ('R_D_v2', 'Cafe_au_lait', 'tool_b2de1b47')
    """
    plain = "".join(one for one in unicodedata.normalize("NFKD", name) if not unicodedata.combining(one))
    lost = any(one.isalnum() and not one.isascii() for one in plain)
    made = re.sub(r"[^a-zA-Z0-9_-]+", "_", plain)
    made = made if made == name else made.strip("_")
    if made and not lost and len(made) <= _LONGEST:
        return made
    digest = hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=_DIGEST // 2).hexdigest()
    return f"{made[: _LONGEST - _DIGEST - 1] or 'tool'}_{digest}"


def likeness(name: str) -> str:
    """What two names share that a model would take for each other: `-`, `_` and spaces count as equal."""
    return wire_name(name).replace("-", "_")


def nearest_first(name: str, known: Iterable[str]) -> Sequence[str]:
    """Names by how near they are to one that does not exist; those that are equally near in their own order."""
    return sorted(known, key=lambda one: -SequenceMatcher(a=name.lower(), b=one.lower()).ratio())
