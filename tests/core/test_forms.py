"""What a record of each kind must hold."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from flowagent.core import journal
from flowagent.core.forms import read
from flowagent.core.records import Record, RecordKind
from flowagent.errors import StoreError

DONE: dict[str, Any] = {
    "task": "a@1",
    "parents": ["START"],
    "attempt": 1,
    "writes": {"x": ["set", [1]]},
    "to": ["b", ["c", [1, 2]]],
    "at": 1.5,
    "s": 0,
}


def written(**changes: Any) -> bytes:
    return json.dumps({**DONE, **changes}).encode()


@pytest.mark.parametrize("name", ["parents", "attempt", "writes", "at"])
def test_what_goes_without_saying_may_be_left_out(name: str) -> None:
    """The parent that is the task of the record before, a first attempt, an empty update."""
    told = {key: value for key, value in DONE.items() if key != name}
    assert read("done", json.dumps(told).encode()) == told


def test_what_is_read_is_what_is_there() -> None:
    """Nothing is changed, and nothing left out: a later version may have written more."""
    assert read("done", written(more=[1], value={"b": 1, "a": 2})) == {**DONE, "more": [1], "value": {"b": 1, "a": 2}}


@pytest.mark.parametrize(
    "changes",
    [
        {"task": 1},
        {"attempt": "1"},
        {"attempt": True},
        {"parents": "START"},
        {"writes": {"x": ["put", [1]]}},
        {"writes": {"x": ["set"]}},
        {"to": [["c"]]},
        {"to": [1]},
        {"s": "0"},
        {"at": None},
        {"usage": 1},
        {"usage": {"input": -1}},
    ],
    ids=str,
)
def test_what_does_not_fit_is_told(changes: dict[str, Any]) -> None:
    """A reader meets no data that it does not expect: the error names the record, and where in it."""
    (name,) = changes
    with pytest.raises(StoreError, match=rf"record 3 of run `r` \(done\) is damaged: {name}"):
        journal.read("r", Record(3, "done", written(**changes)))


@pytest.mark.parametrize("kind", get_args(RecordKind))
@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"\xff", b"[" * 9999], ids=repr)
def test_no_kind_is_just_anything(kind: RecordKind, data: bytes) -> None:
    """A record is an object, whatever its kind."""
    with pytest.raises(StoreError, match=rf"record 3 of run `r` \({kind}\) is damaged"):
        journal.read("r", Record(3, kind, data))


def test_an_unknown_kind_is_told() -> None:
    """A kind that this version does not know is no record of its format."""
    with pytest.raises(StoreError, match="unknown kind 'import'"):
        journal.read("r", Record(3, "import", b"{}"))  # pyright: ignore[reportArgumentType]  # as a damaged row has it
