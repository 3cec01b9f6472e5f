"""Values are written in every style that OpenAPI knows, as in the table of its specification."""

from __future__ import annotations

from typing import Any

import pytest

from flowagent.errors import ToolError
from flowagent.tools.wire import Body, Parameter, Written, write

COLOURS = ["blue", "black"]
RGB = {"R": 100, "G": 200}


def written(where: Any, style: str, explode: bool, value: Any, **more: Any) -> Written:
    one = Parameter(argument="color", key="color", where=where, style=style, explode=explode, **more)
    return write("/x/{color}", [one], None, {"color": value})


@pytest.mark.parametrize(
    ("style", "explode", "texts"),
    [
        ("simple", False, ["blue", "blue,black", "R,100,G,200"]),
        ("simple", True, ["blue", "blue,black", "R=100,G=200"]),
        ("label", False, [".blue", ".blue,black", ".R,100,G,200"]),
        ("label", True, [".blue", ".blue.black", ".R=100.G=200"]),
        ("matrix", False, [";color=blue", ";color=blue,black", ";color=R,100,G,200"]),
        ("matrix", True, [";color=blue", ";color=blue;color=black", ";R=100;G=200"]),
    ],
)
def test_the_styles_of_paths(style: str, explode: bool, texts: list[str]) -> None:
    assert [written("path", style, explode, value).path for value in ("blue", COLOURS, RGB)] == [
        f"/x/{text}" for text in texts
    ]


@pytest.mark.parametrize("where", ["query", "cookie"])
@pytest.mark.parametrize(
    ("style", "explode", "pairs"),
    [
        ("form", False, [["color=blue"], ["color=blue,black"], ["color=R,100,G,200"]]),
        ("form", True, [["color=blue"], ["color=blue", "color=black"], ["R=100", "G=200"]]),
        ("spaceDelimited", False, [["color=blue"], ["color=blue%20black"], ["color=R%20100%20G%20200"]]),
        ("pipeDelimited", False, [["color=blue"], ["color=blue|black"], ["color=R|100|G|200"]]),
        ("deepObject", True, [["color=blue"], ["color=blue", "color=black"], ["color%5BR%5D=100", "color%5BG%5D=200"]]),
    ],
)
def test_the_styles_of_queries_and_cookies(where: str, style: str, explode: bool, pairs: list[list[str]]) -> None:
    made = [written(where, style, explode, value) for value in ("blue", COLOURS, RGB)]
    assert [one.query or one.cookies for one in made] == pairs


def test_headers_are_written_plainly() -> None:
    made = [
        written("header", "simple", explode, value).headers["color"]
        for explode in (False, True)
        for value in (COLOURS, RGB)
    ]
    assert made == ["blue,black", "R,100,G,200", "blue,black", "R=100,G=200"]
    assert written("header", "simple", False, {"a": 1}, as_json=True).headers == {"color": '{"a": 1}'}
    assert written("header", "simple", False, "a b/c").headers == {"color": "a b/c"}


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (None, ""), (1.5, "1.5"), (10**20, "100000000000000000000"), ("ä ", "%C3%A4%20")],
)
def test_single_values_are_written_as_json_means_them(value: Any, text: str) -> None:
    assert written("query", "form", True, value).query == [f"color={text}"]


def test_what_has_a_meaning_in_urls_is_kept_only_where_the_document_says_so() -> None:
    assert written("query", "form", True, "a/b?c").query == ["color=a%2Fb%3Fc"]
    assert written("query", "form", True, "a/b?c", reserved=True).query == ["color=a/b?c"]


def test_what_is_not_given_is_left_out() -> None:
    one = Parameter(argument="a", key="a", where="query")
    assert write("/x", [one], Body(argument="body", media_type="text/plain", kind="text"), {}) == Written("/x")


def test_bodies_are_json_forms_or_text() -> None:
    def content(kind: Any, value: Any) -> bytes:
        return write("/x", [], Body(argument="b", media_type="m", kind=kind), {"b": value}).content

    assert content("json", {"a": "ü"}) == '{"a": "ü"}'.encode()
    assert content("form", {"a": [1, 2], "b c": "x&y"}) == b"a=1&a=2&b%20c=x%26y"
    assert content("text", "ü") == "ü".encode()


@pytest.mark.parametrize("value", ["", ".", "..", []])
def test_a_part_of_a_path_is_something(value: Any) -> None:
    with pytest.raises(ToolError, match="`color` is a part of a path, and cannot be"):
        written("path", "simple", False, value)
