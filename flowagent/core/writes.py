"""What a commit wrote, field by field, and how writes are applied, put one after another, and merged.

A write is a `set` (a plain value), a `delta` (for the field's reducer; a list of deltas, applied in turn) or a
`replace` (sets a field with a reducer). The kind is stored with it, so that folding a stored run never depends on
how the field is annotated today.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from flowagent.core.frozen import same
from flowagent.core.reducers import Reducer
from flowagent.errors import ConflictError

TupleT = TypeVar("TupleT", bound=tuple[Any, ...])
WriteKind = Literal["set", "delta", "replace"]
Values: TypeAlias = dict[str, Any]


class Write(NamedTuple):
    """One field's part of an update: `values` and their JSON `datas`; one of each, or for a delta one or more."""

    kind: WriteKind
    values: list[Any]
    datas: list[bytes]


Writes: TypeAlias = dict[str, Write]
NOTHING: Writes = {}


if TYPE_CHECKING:

    def tupled(kind: type[TupleT], fields: tuple[Any, ...]) -> TupleT:
        """Make a NamedTuple."""
        ...
else:
    tupled = tuple.__new__  # what is made at every step is made so: the class's own constructor is Python code


class Source(Protocol):
    """Who wrote something: a commit, as far as merging must know it."""

    @property
    def id(self) -> str:
        """The task's id."""
        ...

    @property
    def writes(self) -> Writes:
        """What it wrote."""
        ...


def folded(reducer: Reducer | None, old: Any, write: Write) -> Any:
    """The value of a field after one write."""
    if write.kind != "delta":
        return write.values[0]
    fold = _fold_of(reducer)
    for delta in write.values:
        old = fold(old, delta)
    return old


def _fold_of(reducer: Reducer | None) -> Callable[[Any, Any], Any]:
    # A field that has lost its reducer in the code keeps the stored deltas' meaning as far as that is possible.
    return (lambda old, delta: delta) if reducer is None else reducer.fold


def applied(reducers: Mapping[str, Reducer | None], values: Values, writes: Writes) -> Values:
    """The state after an update; only the written fields are looked at.

    Raises:
        ConflictError: a reducer failed; each update alone has passed it, so it is their meeting that it cannot take.
    """
    if not writes:
        return values
    new = {**values}
    for name, write in writes.items():
        kind, wholes, _ = write  # at every step, and taking a tuple apart is cheaper than naming its parts
        try:
            new[name] = wholes[0] if kind == "set" else folded(reducers.get(name), values.get(name), write)
        except Exception as error:  # reducers are user code
            raise unmergeable(name, (), error) from error
    return new


def followed(reducer: Reducer | None, first: Write, second: Write) -> Write:
    """One write that does what two do in turn. May reuse (and lengthen) the first, which must not be used again."""
    if second.kind != "delta":
        return second
    if first.kind != "delta":
        # The fold runs over the value, and its JSON follows when (and if) it is stored: see `journal.encoded`.
        return Write("replace" if first.kind == "replace" else "set", [folded(reducer, first.values[0], second)], [])
    return _joined_deltas(reducer, first, second)


def _joined_deltas(reducer: Reducer | None, first: Write, second: Write) -> Write:
    if reducer is not None and reducer.name == "append":
        # The commonest case, and one that must not cost more as the delta grows: lengthen the list in place.
        delta = first.values[0]
        owned = cast("list[Any]", delta if type(delta) is list else [*delta])
        for delta in second.values:
            owned.extend(delta)
        return Write("delta", [owned], [])
    values = [*first.values]
    for delta in second.values:
        one = NotImplemented if reducer is None or reducer.compose is None else reducer.compose(values[-1], delta)
        if one is NotImplemented:
            values.append(delta)
        else:
            values[-1] = one
    return Write("delta", values, [])


# -- merging -----------------------------------------------------------------------------------------------------


def merged(
    reducers: Mapping[str, Reducer | None],
    region: Sequence[Source],
    descends: Callable[[Source, Source], bool],
    data_of: Callable[[str, Write], list[bytes]],
    settled: Writes = NOTHING,
) -> Writes:
    """The one update that does what a region of the history did.

    Args:
        reducers: of each field.
        region: the commits between a common dominator and the place where they meet, in fold order.
        descends: whether the first commit descends from the second.
        data_of: the JSON of a field's write, for comparing.
        settled: fields that somebody decided, whatever the region wrote.

    Raises:
        ConflictError: two writes of a field without reducer, neither after the other, that differ.
    """
    by_field: dict[str, list[Source]] = {}
    for commit in region:
        for name in commit.writes:
            by_field.setdefault(name, []).append(commit)
    writes = {
        name: _merged_field(name, reducers.get(name), sources, descends, data_of)
        for name, sources in by_field.items()
        if name not in settled
    }
    writes.update(settled)
    return writes


def _merged_field(
    name: str,
    reducer: Reducer | None,
    sources: list[Source],
    descends: Callable[[Source, Source], bool],
    data_of: Callable[[str, Write], list[bytes]],
) -> Write:
    if len(sources) == 1:
        return sources[0].writes[name]
    try:
        return _merged_writes(name, reducer, sources, descends, data_of)
    except ConflictError:
        raise
    except Exception as error:  # reducers are user code
        raise unmergeable(name, [source.id for source in sources], error) from error


def _merged_writes(
    name: str,
    reducer: Reducer | None,
    sources: list[Source],
    descends: Callable[[Source, Source], bool],
    data_of: Callable[[str, Write], list[bytes]],
) -> Write:
    wholes = _unsuperseded([source for source in sources if source.writes[name].kind != "delta"], descends)
    if not wholes:
        return _all_deltas(reducer, [source.writes[name] for source in sources])
    replaces = [source for source in wholes if source.writes[name].kind == "replace"]
    if len(replaces) > 1:
        raise conflict(name, [winner.id for winner in replaces], "each replaced it whole")
    deltas = [source for source in sources if source.writes[name].kind == "delta"]
    if replaces:
        later = [source.writes[name] for source in deltas if descends(source, replaces[0])]
        return _after_whole(reducer, replaces[0].writes[name], later)
    return _after_sets(name, reducer, (sources, wholes, deltas), descends, data_of)


def _unsuperseded(sources: list[Source], descends: Callable[[Source, Source], bool]) -> list[Source]:
    return [one for one in sources if not any(other is not one and descends(other, one) for other in sources)]


def _after_whole(reducer: Reducer | None, whole: Write, later: list[Write]) -> Write:
    return Write(whole.kind, [_fold_all(reducer, whole.values[0], later)], []) if later else whole


def _after_sets(
    name: str,
    reducer: Reducer | None,
    written: tuple[list[Source], list[Source], list[Source]],
    descends: Callable[[Source, Source], bool],
    data_of: Callable[[str, Write], list[bytes]],
) -> Write:
    sources, sets, deltas = written
    first = sets[0].writes[name]
    # Equal sets may differ in their JSON, which holds the members in the order in which they lay in memory.
    alike = [one for one in sets if data_of(name, one.writes[name]) == data_of(name, first)] == sets or all(
        same(one.writes[name].values[0], first.values[0]) for one in sets
    )
    later = [delta for delta in deltas if any(descends(delta, one) for one in sets)]
    beside = [delta for delta in deltas if delta not in later and not any(descends(one, delta) for one in sets)]
    if alike and not beside:
        return _after_whole(reducer, first, [delta.writes[name] for delta in later])
    if reducer is None:
        raise conflict(name, [one.id for one in [*sets, *beside]], "each set it to another value")
    # A reducer that was added to the code after these were stored: what was set is offered to it as deltas.
    offered = [source for source in sources if source in sets or source in later or source in beside]
    return _all_deltas(reducer, [Write("delta", *one.writes[name][1:]) for one in offered])


def _fold_all(reducer: Reducer | None, value: Any, writes: Sequence[Write]) -> Any:
    for write in writes:
        value = folded(reducer, value, write)
    return value


def _all_deltas(reducer: Reducer | None, writes: list[Write]) -> Write:
    # A copy: joining lengthens a plain list in place, and this one may belong to a commit that lives on.
    values = [cast("list[Any]", [*delta]) if type(delta) is list else delta for delta in writes[0].values]
    whole = Write("delta", values, [])
    for write in writes[1:]:
        whole = _joined_deltas(reducer, whole, write)
    return whole


def conflict(name: str, tasks: Sequence[str], how: str) -> ConflictError:
    """The error for writes that nothing says how to merge."""
    who = " and ".join(f"`{task}`" for task in tasks)
    return ConflictError(
        f"field `{name}` was written by {who}, which ran beside one another, and {how}: declare a reducer "
        f"(Annotated[..., append], or `last` to let the last branch in declared order win), write different "
        f"fields, or settle it for this run with resume(resolve={{{name!r}: value}})",
        field=name,
        tasks=tasks,
    )


def unmergeable(name: str, tasks: Sequence[str], error: BaseException | None) -> ConflictError:
    """The error for a reducer that failed on writes which it took one by one."""
    who = f" of {' and '.join(f'`{task}`' for task in tasks)}" if tasks else ""
    return ConflictError(
        f"the reducer of field `{name}` failed on the writes{who} together: {type(error).__name__}: {error}; mend the "
        f"reducer, or settle the field for this run with resume(resolve={{{name!r}: value}})",
        field=name,
        tasks=tasks,
    )
