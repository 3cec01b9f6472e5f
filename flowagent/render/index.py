"""Invented ids for the boxes of a picture, and where arrows to a nested graph begin and end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flowagent.core.picture import Arrow, Box, Frame
from flowagent.errors import DrawError

Path = tuple[str, ...]

_OUR_BUG = "a picture made by `draw()` never has this, so it is a bug of flowagent: please report it"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One end of a drawn arrow: a box, or a box inside a cluster at whose border the arrow is clipped."""

    box: str
    cluster: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """Ids by declaration order: names are for people and never become ids.

    Attributes:
        boxes: the id of each box that is drawn as one.
        clusters: the id of each nested frame.
        entries: the box inside a nested frame where arrows into it end.
        exits: the box inside a nested frame where arrows out of it begin.
    """

    boxes: dict[Path, str]
    clusters: dict[Path, str]
    entries: dict[Path, str]
    exits: dict[Path, str]

    def tail(self, arrow: Arrow) -> End:
        """Where an arrow begins."""
        return self._end(arrow.tail, self.exits)

    def head(self, arrow: Arrow) -> End:
        """Where an arrow ends."""
        return self._end(arrow.head, self.entries)

    def _end(self, path: Path, inner: dict[Path, str]) -> End:
        if path in inner:
            return End(box=inner[path], cluster=self.clusters[path])
        if path in self.boxes:
            return End(box=self.boxes[path])
        raise DrawError(f"an arrow of the picture ends at `{'/'.join(path)}`, where there is no box; {_OUR_BUG}")


def index(frame: Frame) -> Index:
    """Give every box and every nested frame of a picture its id."""
    made = Index(boxes={}, clusters={}, entries={}, exits={})
    _add_boxes(frame, made)
    return made


def nested(frame: Frame) -> Iterator[tuple[Box | None, Frame]]:
    """Each nested frame with the box that holds it, in declaration order of the boxes."""
    inside = {inner.path: inner for inner in frame.frames}
    for box in frame.boxes:
        if box.path in inside:
            yield box, inside.pop(box.path)
    for inner in inside.values():
        yield None, inner


def plain_boxes(frame: Frame) -> Iterator[Box]:
    """The boxes of a frame that are drawn as boxes, not as clusters."""
    holders = {inner.path for inner in frame.frames}
    return (box for box in frame.boxes if box.path not in holders)


def _add_boxes(frame: Frame, made: Index) -> None:
    for box in plain_boxes(frame):
        if box.path in made.boxes:
            raise DrawError(f"two boxes of the picture have the path `{'/'.join(box.path)}`; {_OUR_BUG}")
        made.boxes[box.path] = f"n{len(made.boxes)}"
    for _, inner in nested(frame):
        made.clusters[inner.path] = f"cluster_{len(made.clusters)}"
        _add_boxes(inner, made)
        _add_ends(inner, made)


def _add_ends(frame: Frame, made: Index) -> None:
    """Arrows to a nested graph lead to its START and out of its END; without these, to any box inside."""
    plain = list(plain_boxes(frame))
    starts = [made.boxes[box.path] for box in plain if box.kind == "start"]
    ends = [made.boxes[box.path] for box in plain if box.kind == "end"]
    others = [made.boxes[box.path] for box in plain]
    deeper = [inner.path for inner in frame.frames if inner.path in made.entries]
    ways_in = starts + others + [made.entries[path] for path in deeper]
    ways_out = ends + others[::-1] + [made.exits[path] for path in deeper]
    if ways_in:
        made.entries[frame.path] = ways_in[0]
        made.exits[frame.path] = ways_out[0]
