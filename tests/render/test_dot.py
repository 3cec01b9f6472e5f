from __future__ import annotations

from textwrap import dedent

import pytest

from flowagent.core.picture import Arrow, Frame, Marks, Picture
from flowagent.render.dot import dot_text
from flowagent.render.image import layout
from tests.render.drawn import Drawn, read_svg
from tests.render.pictures import arrow, box, picture, rich, rich_run

_HEAD = """\
digraph flowagent {
	graph [bgcolor=white compound=true fontname=Helvetica fontsize=12 labeljust=l labelloc=t nodesep=0.35 pad=0.25 ranksep=0.42]
	node [fontcolor="#1F2937" fontname=Helvetica fontsize=12 height=0.4 margin="0.17,0.08" penwidth=1.2 shape=box style="rounded,filled"]
	edge [arrowsize=0.7 color="#5B6675" fontcolor="#5B6675" fontname=Helvetica fontsize=9 penwidth=1.2]
"""  # noqa: E501


def _body(made: Picture, *, times: bool = True) -> list[str]:
    """The lines after the defaults and the title."""
    text = dot_text(made, times=times)
    assert text.startswith(_HEAD)
    assert text.endswith("}\n")
    return [line.strip() for line in text.removeprefix(_HEAD).removesuffix("}\n").splitlines()[1:]]


def _drawn(made: Picture) -> Drawn:
    return read_svg(layout(dot_text(made), "svg").decode())


def test_a_definition_as_text():
    """A small definition gives this DOT, to the letter."""
    title = (
        '<<TABLE BORDER="0" CELLBORDER="0" CELLPADDING="1" CELLSPACING="0"><TR><TD ALIGN="LEFT">'
        '<FONT POINT-SIZE="16" COLOR="#1F2937"><B>g</B></FONT></TD></TR><TR><TD ALIGN="LEFT"> </TD></TR></TABLE>>'
    )
    terminal = 'color="#374151" fillcolor="#374151" fixedsize=true fontcolor="#FFFFFF" fontsize=8 height=0.55 margin=0'
    assert dot_text(picture(box("a"))) == _HEAD + "\n".join(
        [
            f"\tlabel={title} tooltip=g",
            f"\tn0 [label=<<B>START</B>> {terminal} shape=circle style=filled tooltip=START width=0.55]",
            '\tn1 [label=<<B>a</B>> color="#5478AE" fillcolor="#EDF3FB" tooltip="a (node)"]',
            f"\tn2 [label=<<B>END</B>> {terminal} shape=doublecircle style=filled tooltip=END width=0.55]",
            '\tn0 -> n1 [tooltip="START → a"]',
            '\tn1 -> n2 [tooltip="a → END"]',
            "}",
            "",
        ]
    )


def test_arrows_as_text():
    """Fixed arrows are plain, choices carry their label, error arrows are dashed and red, untaken ones grey."""
    arrows = (
        arrow("a", "b"),
        arrow("a", "b", "choice", "yes & no"),
        arrow("a", "b", "error"),
        Arrow(tail=("a",), head=("b",), kind="choice", label="x", taken=0),
        Arrow(tail=("a",), head=("b",), kind="fixed", taken=3),
    )
    boxes = (box("a"), box("b"))
    assert _body(Picture(frame=Frame(path=(), title="t", boxes=boxes, arrows=arrows)))[2:] == [
        'n0 -> n1 [tooltip="a → b"]',
        'n0 -> n1 [label=<&#160;yes &amp; no&#160;> tooltip="a → b"]',
        'n0 -> n1 [color="#C2410C" style=dashed tooltip="a → b"]',
        'n0 -> n1 [label=<&#160;x&#160;> color="#C4CAD3" fontcolor="#737D8C" penwidth=1 tooltip="a → b"]',
        'n0 -> n1 [label=<&#160;\N{MULTIPLICATION SIGN}3&#160;> penwidth=1.8 tooltip="a → b"]',
    ]


def test_a_nested_graph_as_text():
    """FA-087: A nested graph is a cluster with small ends of its own; arrows are clipped at its border."""
    here = ("sub",)
    inner_boxes = (box("START", "start", here), box("b", under=here), box("END", "end", here))
    inner = Frame(path=here, title="sub", boxes=inner_boxes, arrows=(arrow("START", "b", under=here),))
    outer = (box("a"), box("sub", "graph"), box("c"))
    arrows = (arrow("a", "sub"), arrow("sub", "c"), arrow("sub", "sub", "choice", "again"))
    made = Picture(frame=Frame(path=(), title="t", boxes=outer, arrows=arrows, frames=(inner,)))
    cell = '<TR><TD ALIGN="LEFT"><B>sub</B></TD></TR>'
    title = f'<<TABLE BORDER="0" CELLBORDER="0" CELLPADDING="1" CELLSPACING="0">{cell}</TABLE>>'
    style = 'style="rounded,filled" tooltip="sub (graph)"'
    small = 'color="#374151" fillcolor="#374151" fixedsize=true fontcolor="#FFFFFF" height=0.16'
    assert _body(made) == [
        'n0 [label=<<B>a</B>> color="#5478AE" fillcolor="#EDF3FB" tooltip="a (node)"]',
        'n1 [label=<<B>c</B>> color="#5478AE" fillcolor="#EDF3FB" tooltip="c (node)"]',
        "subgraph cluster_0 {",
        f'color="#94A3B8" fillcolor="#F8FAFC" fontcolor="#1F2937" label={title} margin=14 penwidth=1.2 {style}',
        f'n2 [label="" {small} shape=circle style=filled tooltip=START width=0.16]',
        'n3 [label=<<B>b</B>> color="#5478AE" fillcolor="#EDF3FB" tooltip="b (node)"]',
        f'n4 [label="" {small} shape=doublecircle style=filled tooltip=END width=0.16]',
        'n2 -> n3 [tooltip="START → b"]',
        "}",
        'n0 -> n2 [lhead=cluster_0 tooltip="a → sub"]',
        'n4 -> n1 [ltail=cluster_0 tooltip="sub → c"]',
        'n4 -> n2 [label=<&#160;again&#160;> tooltip="sub → sub"]',
    ]


def test_a_box_of_a_run_as_text():
    """A failed box is coloured, heavy, and says in words that it failed and why."""
    marks = Marks(status="failed", visits=1, order=(2,), seconds=1.5, failures=1, error="E: <x>")
    line = _body(picture(box("a", marks=marks)))[1]
    assert line == (
        'n1 [label=<<TABLE BORDER="0" CELLBORDER="0" CELLPADDING="1" CELLSPACING="0">'
        '<TR><TD ALIGN="CENTER"><B>a</B></TD></TR>'
        '<TR><TD ALIGN="CENTER"><FONT POINT-SIZE="9" COLOR="#9A3412">#2 · 1.5 s</FONT></TD></TR>'
        '<TR><TD ALIGN="CENTER"><FONT POINT-SIZE="9" COLOR="#9A3412">1 failure</FONT></TD></TR>'
        '<TR><TD ALIGN="CENTER"><FONT POINT-SIZE="9" COLOR="#9A3412">failed: E: &lt;x&gt;</FONT></TD></TR></TABLE>> '
        'color="#C2410C" fillcolor="#FCE8DF" penwidth=2 tooltip="a (node)"]'
    )


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("router", "diamond"),
        ("map", "box3d"),
        ("items", "box3d"),
        ("gate", "octagon"),
        ("graph", "folder"),
        ("agent", "component"),
        ("model", "cylinder"),
        ("tools", "hexagon"),
        ("output", "note"),
    ],
)
def test_each_kind_has_its_shape(kind: str, shape: str):
    """What a box is can be seen without colour."""
    assert f" shape={shape} style=filled " in _body(picture(box("a", kind)))[1]  # pyright: ignore[reportArgumentType]


def test_a_mapped_agent_has_a_double_border():
    """A node that runs for each item is seen to be many, whatever its own shape."""
    assert " peripheries=2 " in _body(picture(box("a", "agent", mapped=True)))[1]
    assert "peripheries" not in _body(picture(box("a", "map", mapped=True)))[1]


def test_a_picture_is_drawn_the_same_every_time():
    """The same picture gives the same text; without times, two runs that differ only in times do too."""
    assert dot_text(rich_run()) == dot_text(rich_run())
    one = picture(box("a", marks=Marks(status="done", visits=1, seconds=1.0)))
    two = picture(box("a", marks=Marks(status="done", visits=1, seconds=2.0)))
    assert dot_text(one) != dot_text(two)
    assert dot_text(one, times=False) == dot_text(two, times=False)
    assert " s<" not in dot_text(rich_run(), times=False)


def test_a_rich_picture_is_drawn_whole(layouter: str):
    """FA-087: Every box, arrow and cluster of nested graphs is drawn once, and every name is there."""
    for made in (rich(), rich_run()):
        drawn = _drawn(made)
        assert (drawn.boxes, drawn.arrows, drawn.clusters) == (17, 21, 2)
        assert {"triage", "research", "web", "fetch pages", "START", "END"} <= set(drawn.texts)


def test_colons_in_names_split_nothing(layouter: str):
    """FA-081: A name with colons is one box, and its arrow ends there."""
    names = ("tool:search", "a::b", "http://h:81/", "'B::C'")
    arrows = tuple(arrow(name, "x") for name in names)
    made = Picture(frame=Frame(path=(), title="t", boxes=tuple(map(box, (*names, "x"))), arrows=arrows))
    drawn = _drawn(made)
    assert (drawn.boxes, drawn.arrows) == (5, 4)
    assert set(names) <= set(drawn.texts)


def test_text_is_never_markup_by_its_looks(layouter: str):
    """FA-082: A label that looks like markup is shown as typed, in boxes, on arrows and in titles."""
    names = ("<lambda> <map>", "<lambda>", "<b>bold</b>", "a < b > c", "<", ">", "</TABLE>")
    arrows = tuple(arrow("x", name, "choice", name) for name in names)
    frame = Frame(path=(), title="<i>t</i>", boxes=tuple(map(box, (*names, "x"))), arrows=arrows)
    drawn = _drawn(Picture(frame=frame))
    assert sorted(text.strip() for text in drawn.texts if text.strip()) == sorted(("<i>t</i>", "x", *names, *names))


def test_keywords_and_odd_names_are_ordinary_names(layouter: str):
    """FA-083: Keywords in any case, numbers and the empty name are separate boxes under their own names."""
    words = ("node", "edge", "graph", "digraph", "subgraph", "strict")
    names = [case for word in words for case in (word, word.upper(), word.title())] + ["1.2.3", "-1", ".", ""]
    frame = Frame(path=(), title="graph", boxes=tuple(map(box, names)), arrows=())
    drawn = _drawn(Picture(frame=frame))
    assert drawn.boxes == len(names)
    assert sorted(text for text in drawn.texts if text.strip()) == sorted(["graph", *(name or '""' for name in names)])


def test_entities_are_shown_as_typed(layouter: str):
    """FA-085: Text that holds an entity is not decoded, neither in the label nor in the tooltip."""
    name = "R&D &amp; x &lt;b&gt; &#65; &nosuch;"
    doc = 'http://h/?a=1&b=2 &quot;q&quot; "q" back\\slash \\N \\l'
    drawn = _drawn(picture(box(name, doc=doc), title=name))
    assert drawn.texts.count(name) == 2
    assert f"{name} (node)\n{doc}" in drawn.tooltips


def test_names_are_not_identifiers(layouter: str):
    """FA-091: Brackets are only text, and names that clean up alike stay separate boxes."""
    names = ("fetch [v2]", "Lambda(f)", "a-b", "a_b", "a b", "end")
    drawn = _drawn(Picture(frame=Frame(path=(), title="t", boxes=tuple(map(box, names)), arrows=())))
    assert drawn.boxes == 6
    assert set(names) <= set(drawn.texts)


def test_equal_names_in_different_graphs_stay_apart(layouter: str):
    """FA-087: Two nested graphs of one name in different parents are two clusters."""
    frames: list[Frame] = []
    for parent in ("x", "y"):
        web = Frame(path=(parent, "web"), title="web", boxes=(box("a", under=(parent, "web")),), arrows=())
        frames.append(
            Frame(path=(parent,), title=parent, boxes=(box("web", "graph", (parent,)),), arrows=(), frames=(web,))
        )
    outer = (box("x", "graph"), box("y", "graph"))
    made = Picture(frame=Frame(path=(), title="t", boxes=outer, arrows=(arrow("x", "y"),), frames=tuple(frames)))
    drawn = _drawn(made)
    assert (drawn.boxes, drawn.arrows, drawn.clusters) == (2, 1, 4)
    assert drawn.texts.count("web") == 2


def test_a_router_is_drawn_with_its_declared_arrows_only(layouter: str):
    """FA-090: A router has exactly its declared arrows with their labels; a run shows which was taken."""
    boxes = (box("a", "router"), *map(box, "bcde"))
    arrows = (
        Arrow(tail=("a",), head=("b",), kind="choice", label="yes", taken=1),
        Arrow(tail=("a",), head=("c",), kind="choice", label="no", taken=0),
    )
    made = Picture(frame=Frame(path=(), title="t", boxes=boxes, arrows=arrows), run_id="r", status="running")
    drawn = _drawn(made)
    assert drawn.arrows == 2
    assert {" yes ", " no "} <= set(drawn.texts)
    taken, untaken = _body(made)[-2:]
    assert "penwidth=1.8" in taken
    assert 'color="#C4CAD3"' in untaken


def test_a_tooltip_of_several_lines(layouter: str):
    """The documentation of a node stands in its tooltip, line by line."""
    doc = dedent("""\
        Reads the ticket.

        Says which desk.""")
    assert f"a (node)\n{doc}" in _drawn(picture(box("a", doc=doc))).tooltips
