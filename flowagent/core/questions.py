"""What runs ask and what counts as an answer. Pure decisions."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# (jsonschema has no types.)
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from flowagent.core import calls
from flowagent.core.facts import Question, Way
from flowagent.core.fields import Codec, codec_of, told
from flowagent.core.machine import Machine
from flowagent.core.memos import about_step
from flowagent.core.nodes import GateNode
from flowagent.core.scope import Task
from flowagent.core.secret import MASK, Masked, asks_secret, opened, revealed, unsealed
from flowagent.core.writes import Writes
from flowagent.errors import AnswerError, UnstorableError

ONCE_ANSWERS = 'answer "retry" if it may be called again, "abort", or {"result": ...} with what it would have returned'


def gate_question(task: Task, node: GateNode) -> Question:
    """The question of a gate, with the state's fields filled in."""
    schema = task.scope.topology.schema
    state = schema.handed(task.values)
    fields = {name: Masked() if name in schema.secrets else getattr(state, name) for name in task.values}
    described = gate_codec(task, node).adapter.json_schema()
    text = node.question.format_map(fields)
    return Question(id=task.id, task=task.id, node=node.name, name="", text=text, schema=described)


def gate_codec(task: Task, node: GateNode) -> Codec:
    """The codec of a gate's answer, which is secret if the field is that it goes into."""
    return codec_of(node.schema, ConfigDict(), secret=node.into in task.scope.topology.schema.secrets)


def once_question(task: Task, what: str, *, step: str = "", schema: Any = None) -> Question:
    """The question about a side effect whose outcome nobody knows.

    Args:
        task: whose it was.
        what: what became of the call, as far as that is known.
        step: the name of the step of the node that was called; "" for the node itself.
        schema: the JSON schema of what a step would have returned.
    """
    name = about_step(step) if step else "once"
    called = f"step `{step}` of `{task.place.name}`" if step else f"`{task.place.name}`"
    return Question(
        id=f"{task.id}?{name}",
        task=task.id,
        node=task.place.name,
        name=name,
        text=f"{called} must not be called twice, and a call of it {what}: {ONCE_ANSWERS}",
        schema=schema,
        purpose="once",
    )


def once_update(task: Task, known: str, key: str) -> tuple[Writes | None, Sequence[Way]]:
    """What the answer about a `once` call means: an update, or None for "abort"."""
    answer = json.loads(known)
    if answer == "abort":
        return None, ()
    if task.place.is_router:
        return {}, calls.router_result(task, opened(answer["result"]))
    if task.place.chooses:
        raise AnswerError(
            f"`{task.place.name}` chooses its target, so its result cannot be given; answer retry or abort"
        )
    return calls.node_result(task, opened(answer["result"]), key, None)


def accepted(machine: Machine, answers: Mapping[str, Any]) -> dict[str, bytes]:
    """The answers by question id, as JSON, if every one of them fits an open question.

    Args:
        machine: the run's position.
        answers: by question id, or by the name of a gate while it has one open question.

    Raises:
        AnswerError: a question that is not open, or an answer that does not fit; nothing has been changed.
    """
    found: dict[str, bytes] = {}
    problems: list[str] = []
    for name, answer in answers.items():
        try:
            question = _question(machine, name)
            found[question.id] = _fitting(machine, question, answer)
        except AnswerError as error:
            problems.append(str(error))
    if problems:
        raise AnswerError("; ".join(problems))
    return found


def _question(machine: Machine, name: str) -> Question:
    if name in machine.questions:
        return machine.questions[name]
    of_node = [question for question in machine.questions.values() if question.node == name]
    if len(of_node) == 1:
        return of_node[0]
    if of_node:
        ids = ", ".join(f"`{question.id}`" for question in of_node)
        raise AnswerError(f"`{name}` has {len(of_node)} open questions; answer by id: {ids}")
    known = ", ".join(f"`{question_id}`" for question_id in machine.questions) or "none"
    raise AnswerError(f"there is no open question `{name}`; open are: {known}")


def _fitting(machine: Machine, question: Question, answer: Any) -> bytes:
    if question.purpose == "once":
        secret = bool(machine.tasks[question.task].scope.topology.schema.secrets) or asks_secret(question.schema)
        return _fitting_once(question, answer, secret=secret)
    task = machine.tasks[question.task]
    node = task.place.node
    if isinstance(node, GateNode):
        codec = gate_codec(task, node)
        try:
            return codec.through(codec.validate(answer))[1]
        except UnstorableError as error:
            raise AnswerError(f"the answer to `{question.id}` {error}") from error
        except Exception as error:  # noqa: BLE001  # raised again, from its cause if that may be shown
            problem = told(error, codec.secret)
            cause = None if codec.secret else error
            raise AnswerError(f"the answer to `{question.id}` does not fit: {problem}") from cause
    return _by_json_schema(question, answer)


def _fitting_once(question: Question, answer: Any, *, secret: bool) -> bytes:
    if answer not in ("retry", "abort") and not (isinstance(answer, dict) and set(answer) == {"result"}):
        raise AnswerError(f"the answer to `{question.id}` does not fit: {ONCE_ANSWERS}")
    if not isinstance(answer, dict):
        return _as_plain(question, answer)
    result = revealed(answer["result"]) if secret else answer["result"]
    data = _as_plain(question, result, secret=secret)
    if question.schema is not None:
        _hold_to_schema(question, json.loads(unsealed(data) if secret else data), hidden=secret)
    # Which part of the result is secret, only the node's update will tell.
    return b'{"result":%b}' % data


def _by_json_schema(question: Question, answer: Any) -> bytes:
    """What a node asked is checked by the JSON schema that it was asked with; the type is the node's own."""
    if hidden := asks_secret(question.schema):
        answer = revealed(answer)
    elif isinstance(answer, BaseModel):  # the node's type makes it anew from what it says
        answer = answer.model_dump(mode="json", by_alias=True, round_trip=True)
    data = _as_plain(question, answer, secret=hidden)
    _hold_to_schema(question, json.loads(unsealed(data) if hidden else data), hidden=hidden)
    return data


def _hold_to_schema(question: Question, plain: Any, *, hidden: bool) -> None:
    from jsonschema import Draft202012Validator  # noqa: PLC0415  # only answers to nodes need it (P14)
    from jsonschema.exceptions import best_match  # noqa: PLC0415  # likewise

    found = best_match(Draft202012Validator(question.schema).iter_errors(plain))
    if found is not None:
        problem = f"{MASK} (its `{found.validator}`)" if hidden else found.message
        raise AnswerError(f"the answer to `{question.id}` does not fit: {problem}")


def _as_plain(question: Question, answer: Any, *, secret: bool = False) -> bytes:
    try:
        return codec_of(Any, ConfigDict(), secret=secret).through(answer)[1]
    except UnstorableError as error:
        raise AnswerError(f"the answer to `{question.id}` {error}") from error
