"""Drawing names, labels and texts that were not made to be drawn."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from flowagent.core.picture import Frame, Marks, Picture
from flowagent.render import Diagram
from flowagent.render.text import name_text
from tests.render.drawn import read_svg
from tests.render.hostile import PIECES, hostile
from tests.render.pictures import arrow, box


def _picture(names: list[str], text: str) -> Picture:
    """Each name as a box, an arrow's label, a cluster, a title, an error, a question, a tag and a run id."""
    first, *_ = names
    here = ("in",)
    boxes = tuple(
        box(f"{number}", marks=Marks(status="failed", error=text, waiting=(text,)), doc=text, tags=(text,), label=name)
        for number, name in enumerate(names)
    )
    inner = Frame(path=here, title=first, boxes=(box("a", under=here, label=first),), arrows=())
    holder = box("in", "graph", label=first, doc=text)
    arrows = tuple(arrow("in", one.path[0], "choice", text) for one in boxes)
    return Picture(
        frame=Frame(path=(), title=first, boxes=(*boxes, holder), arrows=arrows, frames=(inner,)),
        run_id=text or "r",
        status="failed",
    )


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(names=list(PIECES), text="".join(PIECES))
@example(names=["]", "]]"], text="]")
@given(names=st.lists(hostile, min_size=1, max_size=8), text=hostile)
def test_hostile_text_is_drawn_as_text(layouter: str, names: list[str], text: str):
    """Any text gives a picture that is well-formed, with every box and arrow, and every name as it is shown."""
    made = _picture(names, text)
    drawn = read_svg(Diagram(made).svg())
    assert drawn.boxes == len(names) + 1
    assert drawn.arrows == len(made.frame.arrows)
    assert drawn.clusters == 1
    for name in names:
        assert name_text(name).replace("\xa0", " ") in drawn.texts


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=hostile)
def test_no_text_runs_in_a_browser(layouter: str, name: str):
    """A picture has no script and no link to follow, whatever the text is."""
    svg = Diagram(_picture([f"<script>{name}</script>"], f"javascript:{name}")).svg()
    assert "<script" not in svg
    assert "href" not in svg


@pytest.mark.parametrize("length", [10_000, 1_000_000])
def test_endless_text_is_cut(layouter: str, length: int):
    """Text of any length gives a picture of ordinary size."""
    svg = Diagram(_picture(["word " * (length // 5)], "error " * (length // 6))).svg()
    assert len(svg) < 30_000
    assert read_svg(svg).boxes == 2
