"""A graph of agents with a real language model that runs on this computer: no key, no network, no cost.

`make demo-model` installs what it needs (once; about 200 MB) and runs it. It starts the model's server, runs the graph
of `shop.py`, tells what happens while it happens, draws it, and stops the server. The model has 135 million parameters,
a thousandth of what one would use: what it writes is often nonsense, but the way to it is the real one.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import cast

from examples.local_model.server import local_model, missing
from examples.local_model.shop import Client, Letter, add, model_at, shop
from flowagent import Run
from flowagent.errors import RunFailed
from flowagent.events import Event, ModelCalled, TaskDone, TaskStarted, TextDelta, ToolEnded, ToolStarted


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.local_model", description="Agents with a local model.")
    parser.add_argument("--letter", default="Dear shop, I bought 3 cats.", help="what the shop is written")
    parser.add_argument("--client", choices=["openai", "anthropic"], default="openai", help="whose package asks")
    parser.add_argument("--out", type=Path, default=Path(".flowagent"), help="the folder for the picture")
    return parser.parse_args()


def tell(event: Event) -> None:
    """Say what happens."""
    match event:
        case TaskStarted(node="writer", path=()):
            print("  writer writes: ", end="", flush=True)
        case TextDelta(path=("writer", *_)):
            print(event.text, end="", flush=True)
        case ToolStarted():
            print(f"  {event.path[0]} calls {event.tool}({event.arguments})")
        case ToolEnded():
            print(f"  {event.tool} returns {event.text}")
        case ModelCalled():
            lead = "\n" if event.path[0] == "writer" else ""
            print(f"{lead}  {event.path[0]} asked {event.model}: {event.usage.tokens} tokens, {event.seconds:.1f} s")
        case TaskDone(path=()) if event.node in ("reader", "counter"):
            shown = {name: value for name, value in event.update.items() if name in ("bought", "cans")}
            print(f"  {event.node} is done: {shown}")
        case _:
            pass


async def answer(letter: str, url: str, client: Client) -> Run[Letter]:
    async with shop(model_at(url, client)).stream(Letter(text=letter)) as watch:
        async for event in watch:
            tell(event)
    return watch.run


def report(run: Run[Letter], picture: Path) -> None:
    """Say what came of it, as far as it came."""
    state = run.state
    print(f"\nRead by the model:    {state.bought.number} x {state.bought.animal}")
    print(f"Counted with a tool:  {state.cans} cans (really {add(state.cans_in_stock, state.cans_delivered)})")
    print(f"Written by the model: {state.answer}")
    picture.parent.mkdir(parents=True, exist_ok=True)
    run.draw().save(picture)
    print(f"\n{run.usage.requests} requests, {run.usage.tokens} tokens, no cost.")
    print(f"The run as a picture: {picture}")


def main() -> None:
    chosen = options()
    if steps := missing():
        sys.exit(f"The model is not installed. `make demo-model` does all of it; by hand: {steps}")
    failed: RunFailed | None = None
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        with local_model(Path(folder) / "server.log") as server:
            print(f"SmolLM2-135M-Instruct is served at {server.url} after {time.perf_counter() - begun:.1f} s.")
            print(f"Letter: {chosen.letter}")
            try:
                run = asyncio.run(answer(chosen.letter, server.url, chosen.client))
            except RunFailed as error:  # so small a model does not always find the words that are wanted
                failed, run = error, cast("Run[Letter]", error.run)
            report(run, chosen.out / "local-model.svg")
    print("The server is stopped.")
    if failed is not None:
        sys.exit(f"\n{failed}")


if __name__ == "__main__":
    main()
