"""What is remembered of a task's steps, and under which names. Pure decisions, the same live and on replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from flowagent.core.scope import Task

SPENT: Final = "spent"
"""The memo that only tells what was spent, by an attempt that left no other record."""


_BEGUN: Final = "begun:"
_ABOUT: Final = "once:"


def step_done(name: str) -> str:
    """The name of the memo that a step is done."""
    return f"step:{name}"


def step_begun(name: str) -> str:
    """The name of the memo that a step was begun which must not be done twice."""
    return f"{_BEGUN}{name}"


def about_step(name: str) -> str:
    """The name of the question what became of such a step."""
    return f"{_ABOUT}{name}"


def forget_begun(task: Task, question: str) -> None:
    """The answer to such a question was that the step may be done again."""
    begun = step_begun(question.removeprefix(_ABOUT))
    task.memos = {name: data for name, data in (task.memos or {}).items() if name != begun}
    task.answers = {name: data for name, data in (task.answers or {}).items() if name != question}


def kept_when_fresh(memos: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What is remembered of a task that begins anew: that some steps were begun that must not be done twice."""
    known = memos or {}
    kept = {name: data for name, data in known.items() if name.startswith(_BEGUN)}
    for name, data in kept.items():
        if step_done(name.removeprefix(_BEGUN)) in known:
            kept[name] = {**data, "what": "was made before"}
    return kept or None
