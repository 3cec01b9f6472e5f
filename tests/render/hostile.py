"""Text that was not made to be drawn."""

from __future__ import annotations

from hypothesis import strategies as st

PIECES = (
    *("node", "edge", "graph", "digraph", "subgraph", "strict", "end", "END", "\\N", "\\G", "\\l", "\\n", "\\", "\\\\"),
    *('"', "'", "<", ">", "<b>", "</b>", "<br/>", "&", "&amp;", "&#65;", "&lt;", "<!--", "]]>", "%", "%%", "%3", "%s"),
    *(":", "::", "a:b:c", ";", "{", "}", "[", "]", "|", "->", "--", "//", "/*", "#", "=", ",", "$", "`", "~", "^", "@"),
    *(
        "\n",
        "\r\n",
        "\t",
        " ",
        "  ",
        "\x00",
        "\x01",
        "\x1b[31m",
        "\x7f",
        "\x85",
        "\u2028",
        "\u202e",
        "\ufeff",
        "\ufffe",
    ),
    *("\ud800", "\udfff", "é", "e\u0301", "节点", "שלום", "🤖", "👨‍👩‍👧", "\U0010ffff", "\xa0", "\u200b", "x" * 60),
)
hostile = st.one_of(
    st.text(st.characters(), max_size=30),
    st.text(st.characters(categories=["Cs", "Cc", "Cf", "Zs", "Po", "Sm"]), max_size=12),
    st.lists(st.sampled_from(PIECES), max_size=6).map("".join),
)
