from __future__ import annotations

import pytest

from flowagent.core.picture import Arrow, Frame
from flowagent.errors import DrawError
from flowagent.render.index import End, index, nested
from tests.render.pictures import arrow, box, rich


def test_ids_are_invented_in_declaration_order():
    """Boxes are numbered as declared, outer before inner; the box of a nested graph is a cluster."""
    ids = index(rich().frame)
    assert ids.boxes[("START",)] == "n0"
    assert ids.boxes[("by_queue",)] == "n2"
    assert list(ids.boxes.values()) == [f"n{number}" for number in range(len(ids.boxes))]
    assert ids.clusters == {("research",): "cluster_0", ("research", "web"): "cluster_1"}
    assert ("research",) not in ids.boxes


def test_arrows_to_a_nested_graph_lead_to_its_start_and_leave_from_its_end():
    """FA-087: An arrow to a nested graph joins boxes inside it and is clipped at its border."""
    ids = index(rich().frame)
    into = Arrow(tail=("by_queue",), head=("research",), kind="fixed")
    out = Arrow(tail=("research",), head=("merge",), kind="fixed")
    assert ids.head(into) == End(box=ids.boxes[("research", "START")], cluster="cluster_0")
    assert ids.tail(into) == End(box="n2")
    assert ids.tail(out) == End(box=ids.boxes[("research", "END")], cluster="cluster_0")


def test_a_nested_graph_without_ends_is_entered_at_what_it_has():
    """A frame that has no START or END of its own is joined at its first and last box, however deep."""
    deep = Frame(path=("g", "h"), title="h", boxes=(box("a", under=("g", "h")), box("b", under=("g", "h"))), arrows=())
    outer = Frame(path=("g",), title="g", boxes=(box("h", "graph", ("g",)),), arrows=(), frames=(deep,))
    ids = index(Frame(path=(), title="t", boxes=(box("g", "graph"),), arrows=(), frames=(outer,)))
    assert ids.head(arrow("x", "g")) == End(box="n0", cluster="cluster_0")
    assert ids.tail(arrow("g", "x")) == End(box="n1", cluster="cluster_0")


def test_a_frame_without_a_holder_is_kept():
    """A nested frame whose box is missing is still drawn, after the others."""
    inner = Frame(path=("lost",), title="lost", boxes=(box("a", under=("lost",)),), arrows=())
    assert list(nested(Frame(path=(), title="t", boxes=(), arrows=(), frames=(inner,)))) == [(None, inner)]


def test_an_arrow_to_nowhere_is_named():
    """An arrow whose end is no box is an error that names it, and no ghost box."""
    with pytest.raises(DrawError, match="ends at `x/y`, where there is no box"):
        index(Frame(path=(), title="t", boxes=(), arrows=())).head(Arrow(tail=("a",), head=("x", "y"), kind="fixed"))


def test_an_arrow_to_an_empty_graph_is_named():
    """A nested graph with nothing inside has no place for an arrow to end."""
    inner = Frame(path=("g",), title="g", boxes=(), arrows=())
    ids = index(Frame(path=(), title="t", boxes=(box("g", "graph"),), arrows=(), frames=(inner,)))
    with pytest.raises(DrawError, match="ends at `g`"):
        ids.head(arrow("a", "g"))


def test_a_path_names_one_box():
    """Two boxes of one path would become one; that is refused."""
    with pytest.raises(DrawError, match="two boxes of the picture have the path `a`"):
        index(Frame(path=(), title="t", boxes=(box("a"), box("a")), arrows=()))
