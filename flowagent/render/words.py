"""What a picture says about a box or an arrow, as lines of plain text; shared by every format."""

from __future__ import annotations

import math
from collections.abc import Iterator

from flowagent.core.figures import spent
from flowagent.core.picture import Arrow, Box, Marks, Picture
from flowagent.render.text import LONGEST_TOOLTIP, name_text, prose_lines, tooltip_text, visible

SEPARATOR = " · "
TIMES = "\N{MULTIPLICATION SIGN}"
MOST_ORDERS = 3
MOST_QUESTIONS = 3


def box_notes(box: Box, *, times: bool) -> tuple[str, ...]:
    """What stands below a box's name: how it is used, then what happened to it in the run."""
    return (*_usage(box), *(() if box.marks is None else _story(box.marks, times=times)))


def box_tooltip(box: Box) -> str:
    """What a pointer over the box shows: its whole name, kind, documentation and tags."""
    label = visible(box.label[:LONGEST_TOOLTIP])
    head = label if box.kind in ("start", "end") else f"{label} ({box.kind})"
    tags = f"tags: {', '.join(map(visible, box.tags))}" if box.tags else ""
    return tooltip_text("\n".join(part for part in (head, box.doc.strip(), tags) if part))


def arrow_label(arrow: Arrow) -> str:
    """What stands beside an arrow: its choice, and how often it was taken when that was not once."""
    label = name_text(arrow.label) if arrow.label else ""
    count = f"{TIMES}{arrow.taken}" if arrow.taken is not None and arrow.taken > 1 else ""
    return " ".join(part for part in (label, count) if part)


def caption(picture: Picture, *, times: bool) -> str:
    """The line below the title of a run: its id, its status, its total time."""
    parts = [f"run {name_text(picture.run_id)}"] if picture.run_id is not None else []
    parts += [visible(picture.status)] if picture.status else []
    parts += _measured(picture.seconds) if times else []
    parts += spent(picture.usage)
    return SEPARATOR.join(parts)


def duration(seconds: float) -> str:
    """A time for people: `<1 ms`, `420 ms`, `1.2 s`, `2 min 5 s`, `3 h 4 min`, `2 d 3 h`."""
    milliseconds = round(seconds * 1000)
    if milliseconds < 1:
        return "<1 ms"
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    if milliseconds < 59_950:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def _usage(box: Box) -> Iterator[str]:
    if box.mapped or box.kind in ("map", "items"):
        yield "for each item"
    if box.join == "each":
        yield "once per arrival"


def _story(marks: Marks, *, times: bool) -> Iterator[str]:
    counts = SEPARATOR.join(_counts(marks, times=times))
    if counts:
        yield counts
    if cost := SEPARATOR.join(spent(marks.usage)):
        yield cost
    troubles = SEPARATOR.join(_troubles(marks))
    if troubles:
        yield troubles
    yield from _standing(marks)


def _counts(marks: Marks, *, times: bool) -> Iterator[str]:
    if marks.order:
        yield _order(marks.order)
    if marks.visits > 1:
        yield f"{TIMES}{marks.visits}"
    if marks.items is not None:
        yield f"{marks.items[0]}/{marks.items[1]} items"
    if times:
        yield from _measured(marks.seconds)


def _order(order: tuple[int, ...]) -> str:
    shown = [f"#{place}" for place in order[:MOST_ORDERS]]
    return ", ".join(shown if len(order) <= MOST_ORDERS else [*shown, "…"])


def _measured(seconds: float | None) -> list[str]:
    return [duration(seconds)] if seconds is not None and math.isfinite(seconds) else []


def _troubles(marks: Marks) -> Iterator[str]:
    if marks.failures:
        yield _plural(marks.failures, "failure", "failures")
    if marks.retries:
        yield _plural(marks.retries, "retry", "retries")


def _plural(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _standing(marks: Marks) -> Iterator[str]:
    """Where the box stands now, in words: colour alone does not reach everybody."""
    if marks.status in ("idle", "done"):
        return
    yield from prose_lines(f"{marks.status}: {marks.error}" if marks.error else marks.status)
    for question in marks.waiting[:MOST_QUESTIONS]:
        yield from prose_lines(question)
    if len(marks.waiting) > MOST_QUESTIONS:
        yield f"and {len(marks.waiting) - MOST_QUESTIONS} more"
