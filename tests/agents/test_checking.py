"""What is wrong with an agent is told when it is made."""

from __future__ import annotations

from typing import Any

import pytest

from flowagent.agents import Agent, Hooks
from flowagent.errors import GraphError
from flowagent.testing import Scripted
from flowagent.tools.builtin import Files


def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@pytest.mark.parametrize(
    ("given", "faults"),
    [
        ({"tools": add}, ["tools= takes a list, such as tools=[add]"]),
        ({"tools": Files(".")}, ["tools= takes a list, such as tools=[Files(...)]"]),
        ({"tools": "search"}, ["tools= takes a list, such as tools=['search']"]),
        (
            {"checks": add, "hooks": Hooks()},
            ["checks= takes a list, such as checks=[add]", "hooks= takes a list, such as hooks=[Hooks(...)]"],
        ),
    ],
    ids=["function", "toolkit", "name", "several"],
)
def test_one_thing_where_several_are_taken_is_told_and_not_taken_apart(given: dict[str, Any], faults: Any) -> None:
    with pytest.raises(GraphError) as caught:
        Agent(Scripted(), **given)
    assert list(caught.value.faults) == faults


def test_a_tuple_is_as_good_as_a_list() -> None:
    assert Agent(Scripted("hello"), tools=(add,)).run_sync("?").output == "hello"
