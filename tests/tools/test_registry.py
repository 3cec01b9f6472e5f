from __future__ import annotations

import pytest

from flowagent.errors import ToolDefinitionError
from flowagent.tools.registry import Registry
from flowagent.tools.tool import tool


def search(query: str) -> str:
    return query


def full() -> Registry:
    registry = Registry()
    for version in (2, 10, 9):
        registry.add(tool(search, description=f"version {version}"), namespace="web", version=version)
    registry.add(tool(search, description="plain"))
    return registry


def test_a_name_without_version_means_the_newest_by_number() -> None:
    """C15."""
    registry = full()
    assert [registry.find(name).description for name in ("web.search", "web.search@2", "search")] == [
        "version 10",
        "version 2",
        "plain",
    ]


def test_of_versions_in_words_the_last_added_is_the_newest() -> None:
    registry = Registry()
    registry.add(tool(search, description="old"), version="stable")
    registry.add(tool(search, description="new"), version="beta")
    assert registry.find("search").description == "new"


def test_all_names_are_listed() -> None:
    assert full().names() == ("web.search@2", "web.search@10", "web.search@9", "search")


def test_what_is_missing_is_told_with_the_nearest_names_all_at_once() -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        full().find_all(["web.search", "web.serch@9", "web.search@3"])
    assert caught.value.faults == (
        "there is no tool `web.serch@9`; did you mean `web.search@9`, `web.search@2`, `web.search@10`?",
        "there is no version `3` of `web.search`; there are: `2`, `10`, `9`",
    )
    with pytest.raises(ToolDefinitionError, match="there is no tool `x`; it is empty"):
        Registry().find("x")


def test_several_are_found_in_order() -> None:
    assert [one.description for one in full().find_all(["search", "web.search"])] == ["plain", "version 10"]


def test_a_name_that_is_taken_in_that_version_is_refused() -> None:
    registry = full()
    with pytest.raises(
        ToolDefinitionError, match=r"`web\.search@2` from .* is there already, from .*: give it a version"
    ):
        registry.add(search, namespace="web", version=2)
    with pytest.raises(ToolDefinitionError, match="`search` from"):
        registry.add(search)
