"""A graph inside a map: every review of a cafe goes through a small graph of its own, and the parent adds up.

    python examples/nested_map.py             run it
    python examples/nested_map.py --draw DIR  and draw the definition and the run

`review` is an ordinary graph, with two branches and a join. `g.map(review, ...)` makes it the body of a map: it
runs once for each item of `over`, side by side, and every step of every item is a step of the run, so a run that
is killed goes on in the middle of an item. What follows the map runs once, after all of them, and finds the
results in input order, whichever item was faster.

`input` says how an item becomes the child's state, `output` what the child gives back; each may be a function or
just a name of a field.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from flowagent import END, START, Graph, State, Update

PRAISE = {"good", "great", "lovely", "warm", "friendly", "best", "fresh", "again"}
BLAME = {"cold", "slow", "rude", "stale", "noisy", "never", "worst"}


class Review(State):
    """One review, and what was found in it."""

    text: str
    words: list[str] = []
    praise: int = 0
    blame: int = 0
    verdict: Literal["liked", "mixed", "disliked"] = "mixed"


review = Graph("review", Review)


@review.node
def split(r: Review) -> Update:
    """Splits the text into words."""
    return {"words": re.findall(r"[a-z]+", r.text.lower())}


@review.node
def count_praise(r: Review) -> Update:
    """Counts the kind words."""
    return {"praise": sum(word in PRAISE for word in r.words)}


@review.node
def count_blame(r: Review) -> Update:
    """Counts the others; runs beside `count_praise`."""
    return {"blame": sum(word in BLAME for word in r.words)}


@review.node
def judge(r: Review) -> Update:
    """Two edges lead here, so it waits for both counts: a join."""
    return {"verdict": "mixed" if r.praise == r.blame else "liked" if r.praise > r.blame else "disliked"}


review.chain(START, split, count_praise, judge, END)
review.chain(split, count_blame, judge)


class Cafe(State):
    """All reviews of one cafe."""

    reviews: list[str]
    verdicts: list[Literal["liked", "mixed", "disliked"]] = []
    summary: str = ""


def review_of(text: str) -> Review:
    """The state that an item starts with."""
    return Review(text=text)


cafe = Graph("cafe", Cafe)
cafe.map(review, name="review", over="reviews", into="verdicts", input=review_of, output="verdict")


@cafe.node
def sum_up(c: Cafe) -> Update:
    """Runs once, after the last review."""
    liked = c.verdicts.count("liked")
    return {"summary": f"{liked} of {len(c.verdicts)} guests liked it"}


cafe.chain(START, "review", sum_up, END)

REVIEWS = [
    "Great coffee, friendly people. We will come again!",
    "The soup was cold and the waiter rude.",
    "Lovely cakes, but slow. Fresh bread, noisy room.",
    "Best breakfast in town.",
]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the graph on four reviews and prints what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--draw", metavar="DIR", type=Path, help="draw the definition and the run into this folder")
    draw_into: Path | None = parser.parse_args(argv).draw
    run = cafe.run_sync(Cafe(reviews=REVIEWS))
    for text, verdict in zip(run.state.reviews, run.state.verdicts, strict=True):
        print(f"{verdict:9} {text}")
    print(run.state.summary)
    if draw_into:
        draw_into.mkdir(parents=True, exist_ok=True)
        cafe.draw().save(draw_into / "nested_map.svg")
        run.draw().save(draw_into / "nested_map-run.svg")
        print(f"pictures in {draw_into}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
