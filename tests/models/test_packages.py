"""Each provider's package is wanted for that provider alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
for name in sys.argv[1].split():
    sys.modules[name] = None  # importing it fails as if it were not installed
from flowagent import START, Graph, State
from flowagent.agents import Agent
from flowagent.errors import ModelError
from flowagent.models import Retrying, open_model

class Count(State):
    n: int

g = Graph("plain", Count)
g.node(lambda count: {"n": count.n + 1}, name="one")
g.chain(START, "one", "END")
assert g.run_sync(Count(n=1)).state.n == 2
for model in ("openai:gpt-5.5", "anthropic:claude-haiku-4-5"):
    try:
        options = {"base_url": "http://127.0.0.1:9", "api_key": "sk-test-123456", "retrying": Retrying(attempts=1)}
        nowhere = open_model(model, **options)
        Agent(nowhere).run_sync("hi")
    except ModelError as error:
        print(model.partition(":")[0], error.kind, "pip install" in str(error))
"""


@pytest.mark.parametrize("missing", ["", "openai", "anthropic", "openai anthropic"])
def test_a_missing_package_stands_in_the_way_of_its_own_models_only(missing: str) -> None:
    """FA-095: with none, one or both installed: plain graphs run, and what is blamed is what is missing."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, missing], capture_output=True, text=True, check=True)
    expected = [
        f"{name} unsupported True" if name in missing else f"{name} connection False"
        for name in ("openai", "anthropic")
    ]
    assert done.stdout.splitlines() == expected
