"""Shapes and colours, the same for every format.

A definition is coloured by kind, a run by status. The status colours follow the palette of Okabe and Ito, which
people tell apart whatever their colour vision; the status also stands in words, and the kind in the shape.
"""

from __future__ import annotations

from dataclasses import dataclass

from flowagent.core.picture import Arrow, Box, BoxKind, MarkStatus

FONT = "Helvetica"  # The one modern face whose widths every layouter knows; viewers fall back to Arial.
INK = "#1F2937"
MUTED = "#5B6675"
FAINT = "#737D8C"
RED = "#C2410C"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a box or a cluster is coloured."""

    fill: str
    line: str
    text: str = INK
    note: str = MUTED
    width: float = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Stroke:
    """How an arrow is drawn."""

    line: str
    text: str = MUTED
    width: float = 1.2
    dashed: bool = False


SHAPES: dict[BoxKind, str] = {
    "start": "circle",
    "end": "doublecircle",
    "node": "box",
    "router": "diamond",
    "map": "box3d",
    "items": "box3d",
    "gate": "octagon",
    "graph": "folder",
    "agent": "component",
    "model": "cylinder",
    "tools": "hexagon",
    "output": "note",
}
ROUNDED: frozenset[BoxKind] = frozenset({"node"})

_TERMINAL = Look(fill="#374151", line="#374151", text="#FFFFFF", note="#FFFFFF")
_TERMINAL_IDLE = Look(fill="#C4CAD3", line="#C4CAD3", text="#FFFFFF", note="#FFFFFF")

_BY_KIND: dict[BoxKind, Look] = {
    "start": _TERMINAL,
    "end": _TERMINAL,
    "node": Look(fill="#EDF3FB", line="#5478AE"),
    "router": Look(fill="#FFF5D6", line="#B58A1B"),
    "map": Look(fill="#E5F4F0", line="#2E8B78"),
    "items": Look(fill="#E5F4F0", line="#2E8B78"),
    "gate": Look(fill="#F4ECFA", line="#8658AC"),
    "graph": Look(fill="#F8FAFC", line="#94A3B8"),
    "agent": Look(fill="#FCECF2", line="#B3507B"),
    "model": Look(fill="#FCECF2", line="#B3507B"),
    "tools": Look(fill="#F1F2F4", line="#6B7280"),
    "output": Look(fill="#EDF3FB", line="#5478AE"),
}

_AGENT = Look(fill="#FEF8FB", line="#B3507B")
"""The frame around an agent: its colour, paler."""

_BY_STATUS: dict[MarkStatus, Look] = {
    "idle": Look(fill="#FAFAFB", line="#C4CAD3", text=FAINT, note=FAINT, width=1.0),
    "done": Look(fill="#E2F4EC", line="#0B8A63", note="#3F6455"),
    "running": Look(fill="#E0F0FB", line="#0072B2", note="#00588A", width=2.0),
    "failed": Look(fill="#FCE8DF", line=RED, note="#9A3412", width=2.0),
    "waiting": Look(fill="#FFF3CC", line="#B77900", note="#7F5600", width=2.0),
}

_INSIDE: dict[MarkStatus, str] = {
    "idle": "#FDFDFD",
    "done": "#F6FBF9",
    "running": "#F5FAFE",
    "failed": "#FEF8F5",
    "waiting": "#FFFBEF",
}


def box_look(box: Box) -> Look:
    """The colours of a box: of what happened to it in a run, else of its kind."""
    if box.marks is None:
        return _BY_KIND[box.kind]
    if box.kind in ("start", "end") and box.marks.status in ("idle", "done"):
        return _TERMINAL_IDLE if box.marks.status == "idle" else _TERMINAL
    return _BY_STATUS[box.marks.status]


def cluster_look(box: Box | None) -> Look:
    """The colours of the frame around a nested graph: paler, since boxes stand on it."""
    if box is None or box.marks is None:
        return _AGENT if box is not None and box.kind == "agent" else _BY_KIND["graph"]
    look = _BY_STATUS[box.marks.status]
    return Look(fill=_INSIDE[box.marks.status], line=look.line, text=look.text, note=look.note, width=look.width)


def stroke(arrow: Arrow) -> Stroke:
    """The line of an arrow: errors dashed and red; in a run, what was not taken is thin and grey."""
    dashed = arrow.kind == "error"
    if arrow.taken == 0:
        return Stroke(line="#C4CAD3", text=FAINT, width=1.0, dashed=dashed)
    line = RED if dashed else MUTED
    return Stroke(line=line, dashed=dashed, width=1.2 if arrow.taken is None else 1.8)
