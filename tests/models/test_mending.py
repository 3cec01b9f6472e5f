"""`mended`: JSON as models write it."""

from __future__ import annotations

from typing import Any

import pytest

from flowagent.models.mending import Mended, mended

REPAIRED = ("repaired its syntax",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [1, null]}', Mended({"a": [1, None]})),
        ("42", Mended(42)),
        ('{"a": 1,}', Mended({"a": 1}, REPAIRED)),
        ("{'a': True}", Mended({"a": True}, REPAIRED)),
        ('{"a": "x\ny"}', Mended({"a": "x\ny"}, REPAIRED)),
        ('{"a": 1', None),
        ('{"a": "x', None),
        ('[{"a": 1}', None),
        ('{"a": }', None),
        ('{"a" 1}', None),
        ("{}}", None),
        ("[,]", None),
        ("hello", None),
        ("", None),
        ("[" * 100_000, None),
    ],
    ids=range(15),
)
def test_syntax_is_mended_and_values_are_not_invented(text: str, expected: Any):
    """FA-063: small faults are mended and said; what is cut or lacks a value is not read at all."""
    assert mended(text) == expected
