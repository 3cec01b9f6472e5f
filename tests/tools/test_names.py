from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowagent.tools.names import likeness, nearest_first, wire_name


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("search", "search"),
        ("search-a", "search-a"),
        ("_private_", "_private_"),
        ("Math Code", "Math_Code"),
        ("R&D / v2", "R_D_v2"),
        ("Café au lait!", "Cafe_au_lait"),
        ("搜索 v2", "v2_20a49684"),
        ("x" * 70, "x" * 55 + "_8fc6d96d"),
    ],
)
def test_fa_054_a_name_is_mapped_to_what_providers_take(name: str, wire: str) -> None:
    """FA-054: any text is a name, and providers are given one that they accept, the same in every process."""
    assert wire_name(name) == wire


@given(st.text(min_size=1))
def test_fa_054_every_name_that_is_sent_is_accepted(name: str) -> None:
    """FA-054: every name sent matches the pattern of the providers."""
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", wire_name(name))


def test_names_in_other_scripts_are_kept_apart() -> None:
    assert len({wire_name(name) for name in ("搜索 v2", "翻译 v2", "翻译", "поиск")}) == 4


def test_names_that_differ_by_dashes_or_spaces_are_alike() -> None:
    assert {likeness(name) for name in ("search-a", "search_a", "search a")} == {"search_a"}


def test_the_nearest_name_comes_first() -> None:
    assert list(nearest_first("exec_code", ["read_file", "run_code", "run_codes"])) == [
        "run_code",
        "run_codes",
        "read_file",
    ]
