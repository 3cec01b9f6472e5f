"""A state model compiled: its fields, its starting values, and what an update of a node becomes.

An update passes in two steps. Each written value or delta is validated by its own type; then the new whole value
has to pass the field's constraints and validators, and the model's. What comes out is what is stored and, read
back from its JSON, what the next node sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from flowagent.core import views
from flowagent.core.fields import StateField, aliases_of, problems_of, read_field, told
from flowagent.core.frozen import same
from flowagent.core.reducers import NoDiff, Reducer, Replace
from flowagent.core.secret import MASK, secrets_of
from flowagent.core.writes import NOTHING, Values, Write, Writes, applied, folded, tupled
from flowagent.errors import StateError, UnstorableError


class Schema:
    """A compiled state model.

    Attributes:
        model: the model.
        fields: its fields by name.
        reducers: the reducer of each field, or None.
        secrets: the names of the fields that nobody may see.
        handed: makes the state as a node is given it: an instance of the model that cannot be changed.
        is_shareable: whether all tasks with one state may be handed the same.
        whole: whether only the whole model can hold an update to its validators.
    """

    __slots__ = ("_drops_extra", "_hidden", "fields", "handed", "is_shareable", "model", "reducers", "secrets", "whole")

    def __init__(self, model: type[BaseModel]) -> None:
        self.model = model
        self.fields = {name: read_field(model, name, info) for name, info in model.model_fields.items()}
        self.reducers: dict[str, Reducer | None] = {name: field.reducer for name, field in self.fields.items()}
        self.secrets = secrets_of(model)
        # pydantic names a field by its alias, and its message about a whole model quotes all of it.
        infos = [(name, model.model_fields[name]) for name in self.secrets]
        self._hidden = frozenset(key for name, info in infos for key in (name, *aliases_of(info)))
        # Model validators look at fields together, so only the whole model can run them; and a frozen model
        # refuses the assignment by which one field's validators would be run.
        decorators = model.__pydantic_decorators__
        frozen = bool(model.model_config.get("frozen", False))
        self.whole = bool(decorators.model_validators or decorators.root_validators) or (
            frozen and any(field.decorated for field in self.fields.values())
        )
        self._drops_extra = model.model_config.get("extra") == "ignore"
        view = views.view_class(model)
        self.handed: Callable[[Values], BaseModel] = views.builder(view)
        # Nothing a task could do to such an instance would show.
        self.is_shareable = view is model and not model.__private_attributes__

    def field(self, name: str) -> StateField:
        """A field by its name.

        Raises:
            StateError: the model has no such field (any more).
        """
        field = self.fields.get(name)
        if field is None:
            raise StateError(f"`{name}` was stored but is no field of `{self.model.__name__}`{self.hint(name)}")
        return field

    # -- reading -------------------------------------------------------------------------------------------------

    def result(self, values: Values) -> BaseModel:
        """The state as a caller is given it."""
        return views.result(self.model, values)

    def dump(self, values: Values) -> dict[str, bytes]:
        """Each field's JSON."""
        return {name: field.value.encode(values[name]) for name, field in self.fields.items() if name in values}

    def load(self, data: Mapping[str, bytes | str]) -> Values:
        """Read each field's JSON back; a field that is missing takes its default.

        Raises:
            StateError: data that does not fit today's model; `problems` lists all of it.
        """
        values: Values = {}
        problems = [
            f"`{name}` was stored but is no field of `{self.model.__name__}`" for name in data.keys() - self.fields
        ]
        for name, field in self.fields.items():
            try:
                values[name] = field.value.decode(data[name]) if name in data else self._default(name)
            except ValidationError as error:
                problems.append(f"`{name}`: {problems_of(error, field.secret)}")
            except StateError as error:
                problems.extend(error.problems)
        if problems:
            raise StateError(
                f"the stored state does not fit `{self.model.__name__}`: " + "; ".join(problems),
                raw={name: MASK if name in self.secrets else _text(part) for name, part in data.items()},
                problems=problems,
            )
        return values

    def _default(self, name: str) -> Any:
        info = self.model.model_fields[name]
        if info.is_required():
            raise StateError("", problems=[f"`{name}` has no default and was not stored"])
        codec = self.fields[name].value
        default = info.get_default(call_default_factory=True, validated_data={})
        return codec.through(codec.validate(default))[0]

    # -- the start -----------------------------------------------------------------------------------------------

    def start(self, given: BaseModel | Mapping[str, Any] | None, *, key: str = "") -> tuple[Values, dict[str, bytes]]:
        """The starting values of a run and their JSON.

        Args:
            given: an instance of the model, or a mapping of its fields.
            key: unique to the start; names what has to be named.

        Raises:
            StateError: a field that is missing, unknown or of the wrong type, all of them at once.
            UnstorableError: a value that would not come back from a store as it is.
        """
        model = self._instance(given)
        values: Values = {}
        datas: dict[str, bytes] = {}
        problems: list[str] = []
        for name, field in self.fields.items():
            try:
                whole = field.value.validate(model.__dict__[name])  # pydantic does not look at defaults
                values[name], datas[name] = field.value.through(_named(field, whole, key))
            except UnstorableError as error:
                problems.append(f"`{name}` {error}")
            except ValidationError as error:
                problems.append(f"`{name}`: {problems_of(error, field.secret)}")
            except KeyError:
                problems.append(f"`{name}` is missing (was the model made by model_construct?)")
        if problems:
            raise UnstorableError(f"the input `{self.model.__name__}` does not fit a store: " + "; ".join(problems))
        return values, datas

    def _instance(self, given: BaseModel | Mapping[str, Any] | None) -> BaseModel:
        if isinstance(given, self.model):
            # An instance may have been assigned to since it was validated.
            given = cast("dict[str, Any]", views.plain(given).__dict__)
        elif isinstance(given, BaseModel) or not isinstance(given, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance]  # users pass anything
            raise StateError(
                f"the input must be a `{self.model.__name__}` or a mapping, not a `{type(given).__name__}`"
            )
        unknown = [] if self._drops_extra else self._unknown(given or {})
        try:
            made = self.model.__pydantic_validator__.validate_python(dict(given or {}), by_name=True, by_alias=True)
        except ValidationError as error:
            raise StateError(
                f"the input does not fit `{self.model.__name__}`: " + "; ".join([*unknown, self._told(error)])
            ) from self._cause(error)
        except Exception as error:  # noqa: BLE001  # raised again, from its cause if that may be shown
            raise StateError(
                f"the input was refused by a validator of `{self.model.__name__}`: {self._told(error)}"
            ) from self._cause(error)
        if unknown:
            raise StateError(f"the input does not fit `{self.model.__name__}`: " + "; ".join(unknown))
        return made

    def _unknown(self, given: Mapping[str, Any]) -> list[str]:
        """A line for each key that is no field (nor an alias of one, for inputs)."""
        aliases = {alias for info in self.model.model_fields.values() for alias in aliases_of(info)}
        return [
            f"`{key}` is no field of `{self.model.__name__}`{self.hint(key)}"
            for key in given
            if key not in self.fields and key not in aliases
        ]

    def hint(self, key: object) -> str:
        """A "did you mean" for a key that is no field."""
        near = get_close_matches(str(key), self.fields, n=1)
        return f"; did you mean `{near[0]}`?" if near else ""

    # -- updates -------------------------------------------------------------------------------------------------

    def update(self, values: Values, returned: object, *, key: str = "", view: BaseModel | None = None) -> Writes:
        """What a node's return value writes.

        Args:
            values: the state that the node was given.
            returned: None, a mapping of fields, or an instance of the model (its differences count).
            key: unique to the task; names what has to be named.
            view: what the node was handed, to see whether it was changed in place.

        Raises:
            StateError: an unknown field, a value of the wrong type, or a validator that refuses; all at once.
            UnstorableError: a value that would not come back from a store as it is.
        """
        written: Mapping[str, Any]
        if returned is None:
            written = NOTHING
        elif isinstance(returned, dict):
            written = cast("dict[str, Any]", returned)
        elif isinstance(returned, self.model):
            written = self._differences(values, returned)
        elif isinstance(returned, Mapping):
            written = cast("Mapping[str, Any]", returned)
        else:
            raise StateError(
                f"returned a `{type(returned).__name__}`; a node returns None, a mapping of fields such as "
                f"{{{next(iter(self.fields), 'field')!r}: value}}, a `{self.model.__name__}`, or a Goto"
            )
        if (
            not self.is_shareable
            and view is not None
            and (changed := views.changed_in_place(view))
            and (left := set(changed) - set(written))
        ):
            names = ", ".join(f"`{name}`" for name in sorted(left))
            raise StateError(f"changed {names} of its input in place and did not return it: return the changed value")
        if not written:
            return NOTHING
        writes = self._validated(values, written, key)
        if self.whole:
            self._hold_to_model(values, writes)
        return writes

    def _validated(self, values: Values, written: Mapping[str, Any], key: str) -> Writes:
        writes: Writes = {}
        problems: list[str] = []
        cause: Exception | None = None
        for name, value in written.items():
            field = self.fields.get(name)
            if field is None:
                if not self._drops_extra:
                    problems.append(f"`{name}` is no field of `{self.model.__name__}`{self.hint(name)}")
                continue
            try:
                if field.plain and type(value) is not Replace:
                    value = field.value.validate(value)  # noqa: PLW2901
                    writes[name] = tupled(Write, ("set", [value], [field.value.encode(value)]))
                else:
                    writes[name] = self._written(field, values, value, key)
            except ValidationError as error:
                problems.append(f"`{name}`: {problems_of(error, field.secret)}")
                cause = None if field.secret else error
            except UnstorableError as error:
                problems.append(f"`{name}` {error}")
                cause = error
            except StateError as error:
                problems.append(str(error))
                cause = error
            except Exception as error:  # noqa: BLE001  # a validator is user code and may raise anything
                problems.append(f"`{name}`: {told(error, field.secret)}")
                cause = None if field.secret else error
        if problems:
            kind = UnstorableError if isinstance(cause, UnstorableError) and len(problems) == 1 else StateError
            raise kind("its update was refused: " + "; ".join(problems), problems=problems) from cause
        return writes

    def _written(self, field: StateField, values: Values, value: Any, key: str) -> Write:
        reducer = field.reducer
        if isinstance(value, Replace):
            checked = self._checked(field, values, cast("Replace[Any]", value).value)
            whole, data = field.value.through(_named(field, checked, key))
            return Write("replace", [whole], [data])
        if reducer is None:
            if field.guarded:
                value = self._checked(field, values, value)
            else:
                value = field.value.validate(value)
            whole, data = field.value.through(value)
            return Write("set", [whole], [data])
        delta = field.delta.validate(value)
        if reducer.prepare is not None:
            delta = reducer.prepare(delta, key)
        delta, data = field.delta.through(delta)
        write = Write("delta", [delta], [data])
        return self._held(field, values, write) if field.guarded else write

    def _held(self, field: StateField, values: Values, write: Write) -> Write:
        """A delta whose whole has passed the field's validators; what they made of it is what counts."""
        old = values.get(field.name)
        try:
            whole = folded(field.reducer, old, write)
        except Exception as error:  # noqa: BLE001  # raised again, from its cause if that may be shown
            cause = None if field.secret else error
            raise StateError(f"`{field.name}`: its reducer failed: {told(error, field.secret)}") from cause
        checked = self._checked(field, values, whole)
        if same(whole, checked):
            field.value.through(checked)
            return write
        return self._as_delta(field, old, checked)

    def _as_delta(self, field: StateField, old: Any, whole: Any) -> Write:
        """A whole value as a delta if the reducer can tell one, else as a replacement."""
        reducer = field.reducer
        if reducer is not None and reducer.diff is not None:
            try:
                delta, data = field.delta.through(field.delta.validate(reducer.diff(old, whole)))
            except (NoDiff, ValidationError, UnstorableError):
                pass  # it can still be replaced
            else:
                return Write("delta", [delta], [data])
        value, data = field.value.through(whole)
        return Write("set" if reducer is None else "replace", [value], [data])

    def _checked(self, field: StateField, values: Values, value: Any) -> Any:
        """A whole value after the field's constraints and validators; on a private copy, as they may fail late."""
        if not field.decorated or self.whole:
            return field.check(value)
        private = views.build(self.model, values)
        self.model.__pydantic_validator__.validate_assignment(private, field.name, value)
        return private.__dict__[field.name]

    def _hold_to_model(self, values: Values, writes: Writes) -> None:
        """Let the model's own validators see the new whole; add to the writes what they changed."""
        try:
            new = self._revalidated(applied(self.reducers, values, writes))
        except Exception as error:  # noqa: BLE001  # raised again, from its cause if that may be shown
            problem = self._told(error)
            raise StateError(f"its update was refused: {problem}", problems=[problem]) from self._cause(error)
        for name, value in new.items():
            before = folded(self.reducers[name], values.get(name), writes[name]) if name in writes else values[name]
            if not same(before, value):
                field = self.fields[name]
                if name in writes and writes[name].kind == "replace":
                    whole, data = field.value.through(value)
                    writes[name] = Write("replace", [whole], [data])
                else:
                    writes[name] = self._as_delta(field, values.get(name), value)

    def _revalidated(self, values: Values) -> Values:
        return self.model.__pydantic_validator__.validate_python(values, by_name=True, by_alias=False).__dict__

    def _differences(self, old: Values, returned: BaseModel) -> dict[str, Any]:
        """What a returned model changed, as a mapping would say it."""
        new: Mapping[str, Any] = returned.__dict__
        written: dict[str, Any] = {name: value for name, value in new.items() if name not in self.fields}
        for name, field in self.fields.items():
            if name not in new or new[name] is old.get(name) or same(new[name], old.get(name)):
                continue
            written[name] = new[name] if field.reducer is None else self._difference(field, old.get(name), new[name])
        return written

    def _difference(self, field: StateField, old: Any, new: Any) -> Any:
        reducer = field.reducer
        reason = "it has no `diff`"
        if reducer is not None and reducer.diff is not None:
            try:
                return reducer.diff(old, field.value.validate(new))
            except NoDiff as error:
                reason = str(error)
            except Exception as error:  # noqa: BLE001  # a `diff` may be the user's
                reason = told(error, field.secret)
        raise StateError(
            f"`{field.name}` of the returned model cannot be told as a delta of its reducer "
            f"`{reducer.name if reducer else ''}` ({reason}): return a mapping, or {{{field.name!r}: Replace(value)}}"
        )

    # -- errors of the whole model --------------------------------------------------------------------------------

    def _told(self, error: Exception) -> str:
        return told(error, self._hidden)

    def _cause(self, error: Exception) -> Exception | None:
        """What to raise an error from: pydantic's own quotes what was validated."""
        return None if self._hidden and isinstance(error, ValidationError) else error

    # -- where branches meet ---------------------------------------------------------------------------------------

    def hold_merge(self, values: Values, writes: Writes) -> None:
        """Let the validators see a merged state: they may refuse it, not change it.

        Raises:
            StateError: a validator refused, or would have changed something.
        """
        try:
            if self.whole:
                checked = self._revalidated(values)
            else:
                guarded = [self.fields[name] for name in writes if name in self.fields and self.fields[name].guarded]
                checked = {field.name: self._checked(field, values, values[field.name]) for field in guarded}
        except Exception as error:  # noqa: BLE001  # raised again, from its cause if that may be shown
            raise StateError(f"the merged state was refused: {self._told(error)}") from self._cause(error)
        changed = [name for name, value in checked.items() if not same(value, values[name])]
        if changed:
            raise StateError(
                f"a validator would change {', '.join(f'`{name}`' for name in changed)} where branches meet; there it "
                "may only refuse: let each branch write values that need no change"
            )


def _text(data: bytes | str) -> str:
    return str(data, "utf-8") if isinstance(data, bytes) else data


def _named(field: StateField, whole: Any, key: str) -> Any:
    """A whole value whose members have the names that they would have had as a delta (ids, for `messages`)."""
    reducer = field.reducer
    if reducer is None or reducer.prepare is None or whole is None:
        return whole
    return reducer.fold(None, reducer.prepare(whole, key))


@cache
def schema_of(model: type[BaseModel]) -> Schema:
    """The compiled form of a model; compiled once."""
    return Schema(model)
