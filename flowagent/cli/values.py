"""Reads what people write on the command line: a run's input, answers, retries and settled fields."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, cast

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from flowagent.cli.problems import CommandError
from flowagent.core.facts import Question
from flowagent.core.schema import Schema
from flowagent.errors import FlowAgentError

_MOST_CHOICES: Final = 6


# -- the input ---------------------------------------------------------------------------------------------------------


def read_input(given: str | None, schema: Schema) -> dict[str, Any] | None:
    """A run's input: JSON, a file (`@FILE`, or the path of one that exists), or `-` for stdin.

    Raises:
        CommandError: no JSON object; says where it breaks.
    """
    if given is None:
        return None
    source, data = _source(given)
    try:
        found = from_json(data)
    except ValueError as error:
        raise CommandError(f"{source} is no JSON: {error}") from error
    if not isinstance(found, dict):
        kind = "null" if found is None else f"a {type(found).__name__}"
        raise CommandError(f"{source} must be a JSON object of the fields of `{schema.model.__name__}`, not {kind}")
    return _typed(cast("dict[str, Any]", found), schema)


def _source(given: str) -> tuple[str, bytes]:
    """What to call the input, and what it is."""
    if given == "-":
        return "the input from stdin", sys.stdin.buffer.read()
    if given.startswith("@"):
        return f"the input in `{given[1:]}`", _contents(given[1:])
    if given.lstrip().startswith("{"):
        return "the input", given.encode("utf-8", "surrogatepass")
    if _is_file(given):
        return f"the input in `{given}`", _contents(given)
    try:
        from_json(given)
    except ValueError as error:
        raise CommandError(f"the input `{_cut(given)}` is neither JSON nor a file that exists") from error
    return "the input", given.encode()


def _is_file(given: str) -> bool:
    try:
        return Path(given).is_file()
    except (OSError, ValueError):  # too long, or with a NUL in it
        return False


def _contents(path: str) -> bytes:
    try:
        return Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf")  # as some editors begin UTF-8
    except (OSError, ValueError) as error:
        raise CommandError(f"the input `{path}` cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _typed(found: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """The fields as JSON means them for their types (base64 for bytes); what does not fit stays, to be told of."""
    names = {info.alias or name: name for name, info in schema.model.model_fields.items()} | {
        name: name for name in schema.fields
    }
    typed = dict(found)
    for key, value in found.items():
        if key in names:
            try:
                typed[key] = schema.fields[names[key]].value.decode(to_json(value))
            except (ValidationError, FlowAgentError, ValueError, TypeError):
                continue  # a validator of the model may still make something of it
    return typed


# -- what a resumption adds --------------------------------------------------------------------------------------------


def read_answers(given: Sequence[str], questions: Sequence[Question]) -> dict[str, Any]:
    """Answers by question id; each value is JSON if it parses and fits its question, else text.

    Raises:
        CommandError: no `ID=VALUE`, or one question answered twice.
    """
    answers: dict[str, Any] = {}
    known = {name: question for question in reversed(questions) for name in (question.node, question.id)}
    for text in given:
        name, value = _split("--answer", text, "ID=VALUE", known)
        if name in answers:
            raise CommandError(f"--answer {name}: answered twice")
        question = known.get(name)
        answers[name] = _answer(value, None if question is None else question.schema)
    return answers


def _answer(text: str, schema: Any) -> Any:
    try:
        found = from_json(text)
    except ValueError:
        return text
    if fits(found, schema):
        return found
    return text if fits(text, schema) else found


def fits(value: Any, schema: Any) -> bool:
    """Whether a value is an answer by a question's schema."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415  # only answers need it (P14)

    return schema is None or bool(Draft202012Validator(schema).is_valid(value))  # pyright: ignore[reportUnknownMemberType]


def choices(schema: Any) -> tuple[Any, ...]:
    """The few values that a schema allows; empty if there are many."""
    if not isinstance(schema, dict):
        return ()
    known = cast("dict[str, Any]", schema)
    if "const" in known:
        return (known["const"],)
    if known.get("type") == "boolean":
        return (True, False)
    listed: list[Any] = known.get("enum", [])
    return tuple(listed) if len(listed) <= _MOST_CHOICES else ()


def written(value: Any) -> str:
    """A value as it is written after `ID=`, so that it is read back as the same."""
    if isinstance(value, str) and _answer(value, None) == value:
        return value
    return json.dumps(value, ensure_ascii=False)


def read_retries(given: Sequence[str]) -> dict[str, Literal["fresh"]]:
    """Tasks whose memos are dropped, from `TASK=fresh`.

    Raises:
        CommandError: anything else.
    """
    retries: dict[str, Literal["fresh"]] = {}
    for text in given:
        task, value = _split_last("--retry", text, "TASK=fresh")
        if value != "fresh":
            raise CommandError(f"--retry {text}: write TASK=fresh, which drops what the task's steps have recorded")
        retries[task] = "fresh"
    return retries


def read_resolve(given: Sequence[str]) -> dict[str, Any]:
    """Fields (or tasks) and what settles them, from `FIELD=JSON`.

    Raises:
        CommandError: no `FIELD=JSON`.
    """
    settled: dict[str, Any] = {}
    for text in given:
        name, value = _split("--resolve", text, "FIELD=JSON", ())
        try:
            settled[name] = from_json(value)
        except ValueError as error:
            hint = "" if value.startswith(("{", "[", '"')) else f"; text is written as '{name}=\"{value}\"'"
            raise CommandError(f"--resolve {text}: the value is no JSON: {error}{hint}") from error
    return settled


def _split(option: str, text: str, form: str, known: Iterable[str]) -> tuple[str, str]:
    """A name and a value; a known name may hold `=` itself."""
    for name in sorted(known, key=len, reverse=True):
        if text.startswith(f"{name}="):
            return name, text[len(name) + 1 :]
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandError(f"{option} {text}: write {option} {form}")
    return name, value


def _split_last(option: str, text: str, form: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not equals or not name:
        raise CommandError(f"{option} {text}: write {option} {form}")
    return name, value
