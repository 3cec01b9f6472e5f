"""A picture as Mermaid text, for pages that draw it themselves (GitHub, GitLab, many wikis)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

from flowagent.core.picture import Arrow, Box, BoxKind, Frame, Picture
from flowagent.render import look, words
from flowagent.render.index import Index, index, nested, plain_boxes
from flowagent.render.text import mermaid_text, name_text

_SHAPES: dict[BoxKind, tuple[str, str]] = {
    "start": ("((", "))"),
    "end": ("(((", ")))"),
    "node": ("(", ")"),
    "router": ("{", "}"),
    "map": ("[[", "]]"),
    "items": ("[[", "]]"),
    "gate": ("{{", "}}"),
    "graph": ("[[", "]]"),
    "agent": ("([", "])"),
    "model": ("[(", ")]"),
    "tools": ("[/", "\\]"),
    "output": ("[/", "/]"),
}
_INDENT = "    "


def mermaid_source(picture: Picture, *, times: bool = True) -> str:
    """Write a picture as a Mermaid flowchart; the same picture always gives the same text.

    Args:
        picture: what to draw.
        times: whether durations are written.
    """
    writer = _Writer(index(picture.frame), times=times)
    return "\n".join([*_title(picture, times=times), "flowchart TD", *writer.lines(picture.frame)]) + "\n"


class _Writer:
    """Writes frames as Mermaid lines; counts the arrows, since Mermaid styles them by number."""

    def __init__(self, ids: Index, *, times: bool) -> None:
        self._ids = ids
        self._times = times
        self._arrows = count()

    def lines(self, frame: Frame, depth: int = 1) -> Iterator[str]:
        for box in plain_boxes(frame):
            yield from _indented(depth, self._box(box))
        for holder, inner in nested(frame):
            yield from self._cluster(holder, inner, depth)
        for arrow in frame.arrows:
            yield from _indented(depth, self._arrow(arrow))

    def _box(self, box: Box) -> Iterator[str]:
        name = self._ids.boxes[box.path]
        before, after = _SHAPES[box.kind]
        yield f"{name}{before}{self._label(box)}{after}"
        yield f"style {name} {_colours(look.box_look(box))}"

    def _cluster(self, holder: Box | None, frame: Frame, depth: int) -> Iterator[str]:
        name = self._ids.clusters[frame.path]
        label = self._label(holder) if holder else f'"{mermaid_text(name_text(frame.title))}"'
        yield f"{_INDENT * depth}subgraph {name}[{label}]"
        yield from self.lines(frame, depth + 1)
        yield f"{_INDENT * depth}end"
        yield f"{_INDENT * depth}style {name} {_colours(look.cluster_look(holder))}"

    def _label(self, box: Box) -> str:
        notes = () if box.kind in ("start", "end") else words.box_notes(box, times=self._times)
        return f'"{"<br/>".join(mermaid_text(line) for line in (name_text(box.label), *notes))}"'

    def _arrow(self, arrow: Arrow) -> Iterator[str]:
        line = look.stroke(arrow)
        label = words.arrow_label(arrow)
        between = f'|"{mermaid_text(label)}"|' if label else ""
        tail, head = self._ids.tail(arrow), self._ids.head(arrow)
        shaft = "-.->" if line.dashed else "-->"
        yield f"{tail.cluster or tail.box} {shaft}{between} {head.cluster or head.box}"
        yield f"linkStyle {next(self._arrows)} stroke:{line.line},stroke-width:{line.width:g}px"


def _title(picture: Picture, *, times: bool) -> Iterator[str]:
    """The title as Mermaid wants it: YAML in front, in which a JSON string is a string."""
    caption = words.caption(picture, times=times)
    title = words.SEPARATOR.join(part for part in (name_text(picture.frame.title), caption) if part)
    written = json.dumps(title, ensure_ascii=False)
    # Mermaid looks for tags and `%%{` directives in the whole text before it reads the YAML.
    for char in "<>%{}":
        written = written.replace(char, f"\\u{ord(char):04x}")
    yield from ("---", f"title: {written}", "---")


def _indented(depth: int, lines: Iterator[str]) -> Iterator[str]:
    return (_INDENT * depth + line for line in lines)


def _colours(colours: look.Look) -> str:
    return f"fill:{colours.fill},stroke:{colours.line},color:{colours.text},stroke-width:{colours.width:g}px"
