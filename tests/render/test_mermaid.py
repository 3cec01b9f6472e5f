from __future__ import annotations

import re

from hypothesis import given

from flowagent.core.picture import Frame, Marks, Picture
from flowagent.render.mermaid import mermaid_source
from tests.render.hostile import hostile
from tests.render.pictures import arrow, box, picture, rich, rich_run

_LABEL = r'"(?:[^"#<>`{}%\\]|\#\d+;|<br/>)*"'
_LINES = re.compile(
    rf"""\s*(?:
    n\d+ (?: \(\( {_LABEL} \)\) | \(\(\( {_LABEL} \)\)\) | \( {_LABEL} \) | \{{ {_LABEL} \}} | \{{\{{ {_LABEL} \}}\}}
           | \[\[ {_LABEL} \]\] | \(\[ {_LABEL} \]\) | \[/ {_LABEL} [/\\]\]
           | \[\( {_LABEL} \)\] )
    | subgraph[ ]cluster_\d+ \[ {_LABEL} \]
    | end
    | (?:n|cluster_)\d+ [ ] (?:-->|-\.->) (?: \| {_LABEL} \| )? [ ] (?:n|cluster_)\d+
    | style [ ] (?:n|cluster_)\d+ [ ] [-a-zA-Z0-9:\#.,]+
    | linkStyle [ ] \d+ [ ] [-a-zA-Z0-9:\#.,]+
    )""",
    re.VERBOSE,
)


def _lines(made: Picture) -> list[str]:
    dashes, title, end, kind, *lines = mermaid_source(made).removesuffix("\n").split("\n")
    assert (dashes, end, kind) == ("---", "---", "flowchart TD")
    assert re.fullmatch(r'title: "(?:[^"\\<>%{}]|\\["\\]|\\u[0-9a-f]{4})*"', title)
    assert all(_LINES.fullmatch(line) for line in lines)
    return lines


def test_a_flowchart_as_text():
    """A small picture gives this Mermaid text, to the letter."""
    made = picture(box("end"), box("go", "router", join="each"), title='say "hi" 100%')
    terminal = "fill:#374151,stroke:#374151,color:#FFFFFF,stroke-width:1.2px"
    assert mermaid_source(made) == "\n".join(
        [
            "---",
            r'title: "say \"hi\" 100\u0025"',
            "---",
            "flowchart TD",
            '    n0(("START"))',
            f"    style n0 {terminal}",
            '    n1("end")',
            "    style n1 fill:#EDF3FB,stroke:#5478AE,color:#1F2937,stroke-width:1.2px",
            '    n2{"go<br/>once per arrival"}',
            "    style n2 fill:#FFF5D6,stroke:#B58A1B,color:#1F2937,stroke-width:1.2px",
            '    n3((("END")))',
            f"    style n3 {terminal}",
            "    n0 --> n1",
            "    linkStyle 0 stroke:#5B6675,stroke-width:1.2px",
            "    n1 --> n2",
            "    linkStyle 1 stroke:#5B6675,stroke-width:1.2px",
            "    n2 --> n3",
            "    linkStyle 2 stroke:#5B6675,stroke-width:1.2px",
            "",
        ]
    )


def test_nested_graphs_are_subgraphs():
    """FA-087: A nested graph is a subgraph with its title, and arrows join the subgraph itself."""
    lines = [line.strip() for line in _lines(rich())]
    assert 'subgraph cluster_0["research"]' in lines
    assert 'subgraph cluster_1["web"]' in lines
    assert 'n2 -->|"web"| cluster_0' in lines
    assert "cluster_0 --> n6" in lines
    assert lines.count("end") == 2


def test_a_frame_without_a_holder_has_its_title():
    """A nested frame whose box is missing is still written."""
    inner = Frame(path=("lost",), title="lost", boxes=(box("a", under=("lost",)),), arrows=())
    made = Picture(frame=Frame(path=(), title="t", boxes=(), arrows=(), frames=(inner,)))
    assert '    subgraph cluster_0["lost"]' in _lines(made)


def test_a_run_is_told_in_mermaid_too():
    """Marks, counts and dashed error arrows stand in the text; times only when asked for."""
    text = mermaid_source(rich_run())
    assert 'title: "triage · run t-1 · waiting · 1 min 24 s"' in text
    assert "n4 -.-> n5" in text
    assert "Send this answer to the customer as it<br/>stands?" in text
    assert "12.3 s" not in mermaid_source(rich_run(), times=False)
    assert _lines(rich_run())


def test_names_are_not_identifiers():
    """FA-091: Brackets and reserved words are only text, and names that clean up alike stay apart."""
    names = ("fetch [v2]", "Lambda(f)", "a-b", "a_b", "a b", "end", "graph", "subgraph", "click", "style", "default")
    lines = _lines(Picture(frame=Frame(path=(), title="t", boxes=tuple(map(box, names)), arrows=())))
    assert [line.strip() for line in lines[::2]] == [f'n{number}("{name}")' for number, name in enumerate(names)]


@given(hostile, hostile)
def test_hostile_text_stays_inside_its_label(name: str, label: str):
    """Whatever the names, labels and errors are, each line of the text has one of the few forms we write."""
    boxes = (
        box("x", "router"),
        box(name + "'", marks=Marks(status="failed", error=label, waiting=(name,))),
    )
    arrows = (arrow("x", name + "'", "choice", label),)
    made = Picture(frame=Frame(path=(), title=name, boxes=boxes, arrows=arrows), run_id=label, status=name)
    assert len(_lines(made)) == 6
