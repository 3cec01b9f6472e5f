"""Research as map and reduce: an agent reads every source by itself, an editor merges what they found.

    python -m examples.agents.research
    python -m examples.agents.research "What is said about Postgres?" --sources docs --out report.md

A reader sees one file and nothing of the others, so a long source costs no other one its place. What it quotes is
looked up: a quote that does not stand in the file goes back to the reader, with the reason, so that no quote in the
notes is invented. A source that nobody can read is a value in its place and not the end.

    START -> [read, once for each file] -> edit -> END
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from examples.agents.model import MODEL, real_or
from flowagent import END, START, Context, Graph, ItemError, State
from flowagent.agents import Agent, SaveTo
from flowagent.errors import ToolRetry
from flowagent.models import ModelRequest
from flowagent.testing import FunctionModel, Step, call, say
from flowagent.tools.builtin import Files

ROOT: Final = Path(__file__).resolve().parents[2]


class Note(BaseModel):
    """What one source says about the question."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    finding: str = Field(description="what the source says about the question, in one sentence; empty if nothing")
    quotes: list[str] = Field(description="at most three passages that show it, character for character")


class Survey(State):
    """A question, its sources, what was found in each, and the report."""

    question: str
    sources: list[str]
    notes: list[Note | ItemError] = []
    report: str = ""


def survey(folder: Path, out: Path) -> Graph[Survey]:
    """The graph for the sources below a folder.

    Args:
        folder: no tool reads anything outside of it.
        out: where the editor's report is written.
    """
    files = Files(folder, max_bytes=200_000)

    def stands_there(note: Note, ctx: Context[None]) -> Note:
        text = " ".join(files.read_file(note.source).split())
        if invented := [quote for quote in note.quotes if " ".join(quote.split()) not in text]:
            raise ToolRetry(f"these passages do not stand in {note.source}: {json.dumps(invented)}; quote what does")
        return note

    reader = Agent(
        MODEL,
        name="read",
        role="a careful reader",
        instructions="Read the source and note what it says about the question. Do not use what you know otherwise.",
        tools=[files.read_file],
        output=Note,
        checks=[stands_there],
        at_limit="answer",
    )
    editor = Agent(
        MODEL,
        name="edit",
        role="an editor",
        instructions=(
            "Answer the question in a short report in Markdown, from the notes alone.",
            "Name the source of each statement in brackets, and keep quotes as they are.",
        ),
        markdown=True,
        save_to=SaveTo(out.name, base=out.parent),
    )
    g = Graph("survey", Survey)
    g.map(
        reader,
        over="sources",
        into="notes",
        prompt="Question: {question}\nSource: {item}",
        at_most=4,
        on_item_error="collect",
    )
    g.node(editor, prompt="Question: {question}\nNotes:\n{notes}", into="report")
    g.chain(START, "read", "edit", END)
    return g


# -- without a model -------------------------------------------------------------------------------------------------


def words_of(text: str) -> list[str]:
    """The words of a question that are worth looking for."""
    return [word for word in re.findall(r"[a-z]{5,}", text.lower()) if word not in {"about", "which", "where", "there"}]


def read(request: ModelRequest) -> Step:
    """Reads the file by the tool, and quotes the sentences with the most words of the question in them."""
    question, source = request.messages[0].text.removeprefix("Question: ").split("\nSource: ")
    if "read_file" not in request.tool_results:
        return call("read_file", path=source)
    text: str = request.tool_results["read_file"]
    prose = re.sub(r"^(```.*?^```|\|.*?|#.*?)$", "", text, flags=re.MULTILINE | re.DOTALL)
    sentences = [" ".join(one.split()) for one in re.split(r"(?<=[.!?])\s+|\n\n", prose) if one.strip()]
    scored = [(sum(word in one.lower() for word in words_of(question)), one) for one in sentences]
    best = max((score for score, _ in scored), default=0)
    quotes = [one for score, one in scored if score == best > 0][:2]
    return say({"source": source, "finding": f"says something in {len(quotes)} places", "quotes": quotes})


def edit(request: ModelRequest) -> Step:
    """Puts the quotes together, each with its source."""
    question, notes = request.messages[0].text.removeprefix("Question: ").split("\nNotes:\n")
    lines = [
        f"- {quote} [{note['source']}]" for note in json.loads(notes) if "quotes" in note for quote in note["quotes"]
    ]
    return f"# {question}\n\n" + "\n".join(lines)


# -- the command -----------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the survey and prints its report."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.agents.research", description="Sources, read side by side."
    )
    parser.add_argument("question", nargs="?", default="What happens when a process is killed, and what is repeated?")
    parser.add_argument("--sources", type=Path, default=ROOT / "docs", metavar="DIR", help="a folder with *.md")
    parser.add_argument("--out", type=Path, default=Path(".flowagent/report.md"), metavar="FILE", help="the report")
    args = parser.parse_args(argv)
    sources = sorted(path.name for path in args.sources.glob("*.md"))
    with real_or(read=FunctionModel(read), edit=FunctionModel(edit)):
        run = survey(args.sources, args.out).run_sync(Survey(question=args.question, sources=sources))
    print(run.state.report)
    failed = [note for note in run.state.notes if isinstance(note, ItemError)]
    print(f"\n{len(sources) - len(failed)} of {len(sources)} sources were read; the report is in {args.out}")
    for error in failed:
        print(f"  {sources[error.index]}: {error.message}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
