"""Reading a drawn SVG back, as a viewer would."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from xml.etree import ElementTree as ET

_SVG = "{http://www.w3.org/2000/svg}"
_TOOLTIP = "{http://www.w3.org/1999/xlink}title"


@dataclass(frozen=True, slots=True)
class Drawn:
    """What an SVG shows."""

    texts: list[str]
    tooltips: list[str]
    boxes: int
    arrows: int
    clusters: int


def read_svg(svg: str) -> Drawn:
    """Parse an SVG strictly as XML; non-breaking spaces are read as spaces."""
    root = ET.fromstring(svg)
    kinds = Counter(group.get("class") for group in root.iter(f"{_SVG}g"))
    texts = [_spaces("".join(text.itertext())) for text in root.iter(f"{_SVG}text")]
    tooltips = [_spaces(link.get(_TOOLTIP, "")) for link in root.iter(f"{_SVG}a")]
    return Drawn(texts, tooltips, kinds["node"], kinds["edge"], kinds["cluster"])


def _spaces(text: str) -> str:
    return text.replace("\xa0", " ")
