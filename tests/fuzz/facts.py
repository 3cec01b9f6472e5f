"""All that is told of a run but for the moments at which things happened: what two runs must have in common."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from flowagent import Run
from flowagent.cli.output import Output
from flowagent.cli.report import Way
from flowagent.cli.show import show
from flowagent.core.usage import Usage

Facts = dict[str, Any]


def facts_of(run: Run[Any]) -> Facts:
    """What a run says of itself, as plain data."""
    facts = {
        "run_id": run.run_id,
        "graph": run.graph_name,
        "status": run.status,
        "state": state_of(run.state),
        "errors": [str(error) for error in run.errors],
        "questions": [question.plain() for question in run.questions],
        "unmerged": list(run.unmerged),
        "reason": run.reason,
        "unfinished": {name: list(where) for name, where in run.unfinished.items()},
    }
    return plain(facts)


def history_of(run: Run[Any]) -> Facts:
    """What its journal says of it."""
    steps = [asdict(step) for step in run.history]
    for step in steps:
        del step["at"], step["seconds"]
        if not step["usage"]:
            del step["usage"]  # journals of earlier versions tell nothing of it
    return plain({"history": steps})


def plain(facts: object) -> Facts:
    """As JSON would have it."""
    # Sets of text have another order in every process.
    return cast("Facts", json.loads(json.dumps(facts, default=_plain_part), object_hook=_sorted_words))


def _plain_part(part: object) -> object:
    return part.plain() if isinstance(part, Usage) else str(part)


def state_of(state: BaseModel) -> Facts:
    """A state, as facts tell it."""
    return plain(json.loads(state.model_dump_json()))


def _sorted_words(data: Facts) -> Facts:
    if isinstance(data.get("words"), list):
        data["words"] = sorted(data["words"], key=json.dumps)
    return data


def picture_of(run: Run[Any]) -> str:
    """What happened, as DOT text without times."""
    return run.draw(times=False).dot()


def shown(run_id: str, store: Path, key_env: str | None = None) -> None:
    """Have the command line show a run; nobody reads it."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        show(Way(run_id=run_id, store=str(store), key_env=key_env), None, Output())
