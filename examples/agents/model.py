"""Which model the examples ask, decided in one place and said in one line.

`FLOWAGENT_MODEL` names one (`ollama:qwen3`, `llamacpp:qwen3`, `anthropic:claude-haiku-4-5` ...). Without it, a key in
the environment decides. Without a key nothing is asked: an example comes with answers that were written for it, and
everything else in it (tools, files, servers, checks, graphs) is as real as ever.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from flowagent.agents import using
from flowagent.models import Model

KEYS: Final[Mapping[str, str]] = {
    "ANTHROPIC_API_KEY": "anthropic:claude-haiku-4-5",
    "OPENAI_API_KEY": "openai:gpt-5.5",
}
"""What is asked if there is this key."""


def real() -> tuple[str, str]:
    """The real model that can be asked here, and why that one; twice "" if there is none."""
    if named := os.environ.get("FLOWAGENT_MODEL", ""):
        return named, "FLOWAGENT_MODEL names it"
    for key, model in KEYS.items():
        if os.environ.get(key):
            return model, f"{key} is set; this costs money"
    return "", ""


MODEL: Final = real()[0] or KEYS["ANTHROPIC_API_KEY"]
"""The model of all agents of the examples."""


@contextmanager
def real_or(script: Model | None = None, /, **scripts: Model) -> Generator[None]:
    """While this is open, agents ask the real model if there is one, else a script.

    Args:
        script: answers in place of every model.
        scripts: answers in place of the model of the agent or router of that name.
    """
    name, why = real()
    if name:
        print(f"model: {name} ({why})", file=sys.stderr)
        yield
        return
    print(
        "model: none, answers are scripted; set ANTHROPIC_API_KEY, OPENAI_API_KEY or FLOWAGENT_MODEL to ask a real one",
        file=sys.stderr,
    )
    with using(script, **scripts):
        yield
