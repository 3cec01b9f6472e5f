from __future__ import annotations

import pytest

from flowagent.render.text import markup, mermaid_text, name_text, prose_lines, tooltip_attribute, tooltip_text


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("plain", "plain"),
        ("Zoë 节点 🤖", "Zoë 节点 🤖"),
        ("a\nb\tc", r"a\nb\tc"),
        ("bell\x07 del\x7f c1\x85", r"bell\x07 del\x7f c1\x85"),
        ("lone \ud800", r"lone \ud800"),
        ("turned \u202egnp.exe", r"turned \u202egnp.exe"),
        ("lines\u2028apart", r"lines\u2028apart"),
        ("no character \ufffe", r"no character \ufffe"),
        ("far no character \U0001ffff", r"far no character \U0001ffff"),
        ("family 👨‍👩‍👧", "family 👨‍👩‍👧"),
        ("", '""'),
        ("  ", '"  "'),
        ("x" * 48, "x" * 48),
        ("x" * 49, "x" * 47 + "…"),
    ],
)
def test_a_name_is_shown_as_typed_but_for_what_cannot_be_drawn(data: str, shown: str):
    """A name is drawn as typed; what XML or a reader cannot bear is shown as its escape, what is long is cut."""
    assert name_text(data) == shown


def test_prose_is_wrapped_and_cut():
    """A question or an error becomes a few short lines, whatever its own line breaks are."""
    assert prose_lines("May I\n\n  send this?") == ("May I send this?",)
    lines = prose_lines("word " * 100)
    assert len(lines) == 3
    assert all(len(line) <= 38 for line in lines)
    assert lines[-1].endswith("…")
    assert prose_lines("") == ()


def test_a_tooltip_keeps_its_lines():
    """A documentation of several lines keeps them, without anything that breaks the file."""
    assert tooltip_text("one\r\n\ntwo\x00") == "one\n\ntwo\\x00"


def test_escaped_text_is_never_markup_or_escape():
    """What Graphviz would decode, in a label or in a tooltip, is written so that it comes out as it went in."""
    assert markup('<b>"a\\N & &amp;') == '&lt;b&gt;"a\\\\N &amp; &amp;amp;'
    assert tooltip_attribute('<b>"a\\N &\nx') == "&lt;b&gt;&quot;a\\\\\\\\N &amp;\\nx"


@pytest.mark.parametrize(
    ("data", "written"),
    [
        ("a_b (c), d?", "a_b (c), d?"),
        ('say "hi" #1', "say #34;hi#34; #35;1"),
        ("<b>x</b> & y", "#60;b#62;x#60;/b#62; #38; y"),
        ("%%{init: {}}%%", "#37;#37;#123;init#58; #123;#125;#125;#37;#37;"),
        ("`code` *x* $$y$$", "#96;code#96; #42;x#42; #36;#36;y#36;#36;"),
        ("fa:fa-car", "fa#58;fa-car"),
        ("1. first", "1#46; first"),
        ("- item", "#45; item"),
        ("v1.2-rc", "v1.2-rc"),
    ],
)
def test_mermaid_text_is_only_text(data: str, written: str):
    """Nothing in a label reads as Mermaid's markup, icon, formula, directive or Markdown list."""
    assert mermaid_text(data) == written
