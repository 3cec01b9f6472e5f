"""A picture as DOT text, written by the `graphviz` package.

Ids are invented, attributes quoted, and text from data is escaped before it comes near a label (`text.py`).
Labels are Graphviz's HTML-like ones, for the sake of bold names above small notes: every tag in them is ours.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol, cast

import graphviz

from flowagent.core.picture import Arrow, Box, BoxKind, Frame, Picture
from flowagent.render import look, words
from flowagent.render.index import Index, index, nested, plain_boxes
from flowagent.render.text import markup, name_text, tooltip_attribute, tooltip_text

_GRAPH = {
    "compound": "true",  # Lets arrows end at the border of a nested graph.
    "bgcolor": "white",
    "fontname": look.FONT,
    "fontsize": "12",
    "labeljust": "l",
    "labelloc": "t",
    "nodesep": "0.35",
    "pad": "0.25",
    "ranksep": "0.42",
}
_NODE = {
    "fontcolor": look.INK,
    "fontname": look.FONT,
    "fontsize": "12",
    "height": "0.4",
    "margin": "0.17,0.08",
    "penwidth": "1.2",
    "shape": "box",
    "style": "rounded,filled",
}
_EDGE = {
    "arrowsize": "0.7",
    "color": look.MUTED,
    "fontcolor": look.MUTED,
    "fontname": look.FONT,
    "fontsize": "9",
    "penwidth": "1.2",
}
_TERMINAL = {"fixedsize": "true", "fontsize": "8", "height": "0.55", "margin": "0", "width": "0.55"}
_INNER_TERMINAL = {"fixedsize": "true", "height": "0.16", "label": "", "width": "0.16"}
_ROOM: dict[BoxKind, dict[str, str]] = {  # What a shape gives or takes beside a plain box.
    "router": {"height": "0.65", "margin": "0.04,0.06"},
    "gate": {"height": "0.5", "margin": "0.06,0.04"},
    "map": {"margin": "0.2,0.11"},
    "items": {"margin": "0.2,0.11"},
    "model": {"margin": "0.17,0.11"},
    "tools": {"margin": "0.1,0.08"},
}


def dot_text(picture: Picture, *, times: bool = True) -> str:
    """Write a picture as DOT; the same picture always gives the same text.

    Args:
        picture: what to draw.
        times: whether durations are written.
    """
    writer = _Writer(index(picture.frame), times=times)
    dot = cast("_Dot", graphviz.Digraph("flowagent", graph_attr=_GRAPH, node_attr=_NODE, edge_attr=_EDGE))
    dot.attr(label=_title(picture, times=times), tooltip=tooltip_attribute(tooltip_text(picture.frame.title)))
    writer.write(dot, picture.frame)
    return dot.source


class _Dot(Protocol):
    """The part of `graphviz.Digraph` that is used here, with the types that it does not declare."""

    @property
    def source(self) -> str: ...
    def attr(self, **attributes: str) -> None: ...
    def node(self, name: str, **attributes: str) -> None: ...
    def edge(self, tail_name: str, head_name: str, **attributes: str) -> None: ...
    def subgraph(self, *, name: str) -> AbstractContextManager[_Dot]: ...


class _Writer:
    """Writes frames into DOT; knows only the ids and whether times are shown."""

    def __init__(self, ids: Index, *, times: bool) -> None:
        self._ids = ids
        self._times = times

    def write(self, dot: _Dot, frame: Frame, *, inner: bool = False) -> None:
        for box in plain_boxes(frame):
            dot.node(self._ids.boxes[box.path], **_beside(_NODE, self._box(box, inner=inner)))
        for holder, held in nested(frame):
            with dot.subgraph(name=self._ids.clusters[held.path]) as cluster:
                cluster.attr(**self._cluster(holder, held))
                self.write(cluster, held, inner=True)
        for arrow in frame.arrows:
            self._arrow(dot, arrow)

    def _box(self, box: Box, *, inner: bool) -> dict[str, str]:
        colours = look.box_look(box)
        shape = {"shape": look.SHAPES[box.kind], "style": "rounded,filled" if box.kind in look.ROUNDED else "filled"}
        attributes = _colour_attributes(colours) | shape | {"tooltip": tooltip_attribute(words.box_tooltip(box))}
        if box.kind in ("start", "end"):
            return attributes | (_INNER_TERMINAL if inner else {"label": _label(box.label, (), colours)} | _TERMINAL)
        if box.mapped and box.kind not in ("map", "items"):
            attributes["peripheries"] = "2"
        notes = words.box_notes(box, times=self._times)
        return attributes | _ROOM.get(box.kind, {}) | {"label": _label(box.label, notes, colours)}

    def _cluster(self, holder: Box | None, frame: Frame) -> dict[str, str]:
        colours = look.cluster_look(holder)
        notes = words.box_notes(holder, times=self._times) if holder else ()
        label = holder.label if holder else frame.title
        tooltip = words.box_tooltip(holder) if holder else tooltip_text(frame.title)
        return _colour_attributes(colours) | {
            "label": _label(label, notes, colours, align="LEFT"),
            "margin": "14",
            "style": "rounded,filled",
            "tooltip": tooltip_attribute(tooltip),
        }

    def _arrow(self, dot: _Dot, arrow: Arrow) -> None:
        tail, head = self._ids.tail(arrow), self._ids.head(arrow)
        attributes = _stroke_attributes(look.stroke(arrow))
        label = words.arrow_label(arrow)
        if label:
            attributes["label"] = f"<&#160;{markup(label)}&#160;>"
        attributes["tooltip"] = tooltip_attribute(f"{name_text(arrow.tail[-1])} → {name_text(arrow.head[-1])}")
        # From a cluster to itself there is no border to clip at; Graphviz would warn and ignore it.
        if tail.cluster != head.cluster:
            attributes |= {"ltail": tail.cluster} if tail.cluster else {}
            attributes |= {"lhead": head.cluster} if head.cluster else {}
        dot.edge(tail.box, head.box, **_beside(_EDGE, attributes))


def _title(picture: Picture, *, times: bool) -> str:
    lines = [_line(name_text(picture.frame.title), look.INK, size=16, bold=True)]
    caption = words.caption(picture, times=times)
    if caption:
        lines.append(_line(caption, look.MUTED, size=10))
    return _table([*lines, " "], align="LEFT")  # The last line is air between the title and the drawing.


def _label(name: str, notes: tuple[str, ...], colours: look.Look, *, align: str = "CENTER") -> str:
    if not notes and align == "CENTER":
        return f"<<B>{markup(name_text(name))}</B>>"
    lines = [_line(note, colours.note, size=9) for note in notes]
    return _table([f"<B>{markup(name_text(name))}</B>", *lines], align=align)


def _line(text: str, colour: str, *, size: int, bold: bool = False) -> str:
    inner = f"<B>{markup(text)}</B>" if bold else markup(text)
    return f'<FONT POINT-SIZE="{size}" COLOR="{colour}">{inner}</FONT>'


def _table(lines: list[str], *, align: str) -> str:
    """One row for each line: the layouters disagree on the height of lines, not on the padding of cells."""
    rows = "".join(f'<TR><TD ALIGN="{align}">{line}</TD></TR>' for line in lines)
    return f'<<TABLE BORDER="0" CELLBORDER="0" CELLPADDING="1" CELLSPACING="0">{rows}</TABLE>>'


def _colour_attributes(colours: look.Look) -> dict[str, str]:
    return {
        "color": colours.line,
        "fillcolor": colours.fill,
        "fontcolor": colours.text,
        "penwidth": f"{colours.width:g}",
    }


def _stroke_attributes(line: look.Stroke) -> dict[str, str]:
    colours = {"color": line.line, "fontcolor": line.text, "penwidth": f"{line.width:g}"}
    return colours | ({"style": "dashed"} if line.dashed else {})


def _beside(defaults: dict[str, str], attributes: dict[str, str]) -> dict[str, str]:
    """What differs from the defaults, so that the text stays readable."""
    return {name: value for name, value in attributes.items() if defaults.get(name) != value}
