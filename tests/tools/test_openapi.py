"""A document becomes tools, and their calls become the requests that it describes, at a real server."""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from flowagent.errors import ToolDefinitionError, ToolError
from flowagent.models.messages import Media
from flowagent.tools.credentials import Credentials
from flowagent.tools.document import Document, Schemas
from flowagent.tools.openapi import OpenAPITools
from flowagent.tools.operations import Found
from tests.tools.in_a_run import called
from tests.tools.openapi_server import DOCUMENT, answer
from tests.tools.serving import Answered, Asked, Served, serving

KEYS: dict[str, Any] = {
    "key": "sk-test-123456",
    "query_key": SecretStr("sk query/1"),
    "cookie": "sid-1",
    "basic": ("ada", "pw:1"),
}


@pytest.fixture
def shop() -> Iterator[Served]:
    with serving(answer) as served:
        yield served


def tools_of(shop: Served, **options: Any) -> OpenAPITools:
    all_options: dict[str, Any] = {"base_url": f"{shop.url}/v1", "auth": KEYS} | options
    return OpenAPITools(DOCUMENT, **all_options)


# -- what the model is told ------------------------------------------------------------------------------------------


async def test_each_operation_is_a_tool_named_as_the_document_says(shop: Served) -> None:
    tools = await tools_of(shop, prefix="shop_").load()
    assert [(tool.name, tool.description, tool.tags) for tool in tools] == [
        ("shop_getItem", "Get an item.\n\nPrices are in cents.", ("openapi", "items", "read-only")),
        ("shop_put item", "PUT /items/{id}", ("openapi",)),
        (
            "shop_delete_items_id",
            "Deprecated: use something else if there is anything.",
            ("openapi",),
        ),
        ("shop_login", "POST /login", ("openapi",)),
        ("shop_search", "GET /search", ("openapi", "read-only")),
        ("shop_picture", "GET /picture", ("openapi", "read-only")),
        ("shop_moved", "GET /moved", ("openapi", "read-only")),
        ("shop_broken", "GET /broken", ("openapi", "read-only")),
    ]
    assert tools[0].origin == "OpenAPI document `shop` at #/paths/~1items~1{id}/get"


async def test_arguments_of_the_same_name_say_which_place_they_are_of(shop: Served) -> None:
    """The clash of `id` in the path and `id` in the query is visible; keys and headers of the client are hidden."""
    (tool,) = await tools_of(shop, keep=["getItem"]).load()
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "path_id": {"type": "string"},
            "query_id": {"type": "string", "description": "of the view"},
            "fields": {"type": "array", "items": {"type": "string"}},
            "tags": {"type": "array", "items": {"type": "string"}},
            "where": {"type": "object"},
            "X-Trace": {"type": "string"},
            "session": {"type": "string"},
            "filter": {"type": "object"},
        },
        "additionalProperties": False,
        "required": ["path_id"],
    }


async def test_schemas_are_those_of_json_schema_with_what_they_refer_to(shop: Served) -> None:
    """A schema that refers to itself stays finite; null is a type; what is only read is no part of a request."""
    get, put = await tools_of(shop, keep=["getItem", "put item"]).load()
    item = {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "as shown"},
            "colour": {"type": ["string", "null"], "enum": ["red", "green", None]},
            "price": {"type": "integer", "exclusiveMinimum": 0},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
            "maker": {"anyOf": [{"allOf": [{"$ref": "#/$defs/Maker"}]}, {"type": "null"}]},
            "nullable": {"type": "boolean"},
            "secret": {"type": "string", "writeOnly": True},
        },
    }
    maker = {"type": "object", "properties": {"name": {"type": "string"}}}
    assert put.parameters == {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "body": {"$ref": "#/$defs/Item", "description": "the whole item"},
        },
        "additionalProperties": False,
        "required": ["id", "body"],
        "$defs": {"Item": item, "Maker": maker},
    }
    assert get.returns is not None
    assert sorted(get.returns["$defs"]["Item"]["properties"]) == [
        "colour",
        "id",
        "maker",
        "name",
        "nullable",
        "parts",
        "price",
    ]


@pytest.mark.parametrize(
    ("schema", "read"),
    [
        (True, True),
        ({"type": "integer", "minimum": 1, "exclusiveMinimum": False}, {"type": "integer", "minimum": 1}),
        ({"type": "number", "maximum": 9, "exclusiveMaximum": True}, {"type": "number", "exclusiveMaximum": 9}),
        ({"nullable": True, "enum": ["a"]}, {"anyOf": [{"enum": ["a"]}, {"type": "null"}]}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"anyOf": [{"type": "string", "x-more": 1}], "example": {"$ref": "x"}}, {"anyOf": [{"type": "string"}]}),
        ({"items": {"not": {"const": {"$ref": "data"}}}}, {"items": {"not": {"const": {"$ref": "data"}}}}),
    ],
)
def test_schemas_of_3_0_are_put_in_the_words_of_3_1(schema: Any, read: Any) -> None:
    assert Schemas(Document({"openapi": "3.0.0"}), "request").read(schema, "#") == read


async def test_options_are_those_of_all_its_tools(shop: Served) -> None:
    def is_put(one: Found) -> bool:
        return one.method == "put"

    (tool,) = await tools_of(shop, keep=is_put, approval=True, tags=("x",)).load()
    assert (tool.name, tool.approval, tool.tags, tool.untrusted) == ("put item", True, ("x", "openapi"), True)


# -- what is sent ----------------------------------------------------------------------------------------------------


async def test_arguments_are_written_as_the_document_says(shop: Served) -> None:
    found = await called(
        [tools_of(shop)],
        (
            "getItem",
            {
                "path_id": "a/b?c",
                "query_id": "x&y",
                "fields": ["a", "b c"],
                "tags": ["1", "2,3"],
                "where": {"size": 3, "new": True},
                "X-Trace": "t-1",
                "session": "s;1",
                "filter": {"a": [1]},
            },
        ),
    )
    (asked,) = shop.asked
    assert asked.path == (
        "/v1/items/a%2Fb%3Fc?id=x%26y&fields=a&fields=b%20c&tags=1,2%2C3&where%5Bsize%5D=3&where%5Bnew%5D=true"
        "&filter=%7B%22a%22%3A%20%5B1%5D%7D"
    )
    assert (asked.headers["x-trace"], asked.headers["cookie"]) == ("t-1", "session=s%3B1")
    assert (asked.headers["x-key"], asked.headers["accept"]) == (KEYS["key"], "application/json, */*;q=0.5")
    assert json.loads(found.texts[0])["method"] == "GET"


async def test_bodies_are_written_as_json_or_as_forms(shop: Served) -> None:
    item = {"name": "Tee ü", "parts": [{"name": "leaf"}]}
    found = await called(
        [tools_of(shop)],
        ("put_item", {"id": "7", "body": item}),
        ("login", {"body": {"user": "a&b", "scopes": ["x", "y z"]}}),
    )
    assert found.texts == ["(no result)", "user=a%26b&scopes=x&scopes=y%20z"]
    put, login = shop.asked
    assert (put.method, put.headers["content-type"], json.loads(put.body)) == ("PUT", "application/json", item)
    assert login.headers["content-type"] == "application/x-www-form-urlencoded"
    assert "x-key" not in login.headers, "an operation without security gets no key"


async def test_arguments_that_do_not_fit_the_schema_are_told_and_nothing_is_sent(shop: Served) -> None:
    found = await called(
        [tools_of(shop)],
        ("put_item", {"id": "7", "body": {"name": 1, "parts": [{"colour": "blue"}]}}),
        ("getItem", {}),
    )
    assert [one.status for one in found.outcomes] == ["invalid", "invalid"]
    assert "`body.name`: 1 is not of type 'string'" in found.texts[0]
    assert shop.asked == []


@pytest.mark.parametrize("value", ["..", ".", ""])
async def test_a_part_of_a_path_leads_nowhere_else(shop: Served, value: str) -> None:
    found = await called([tools_of(shop)], ("getItem", {"path_id": value}), ("getItem", {"path_id": "../../admin"}))
    assert found.texts[0].startswith("ERROR")
    assert "`path_id` is a part of a path, and cannot be" in found.texts[0]
    assert [one.path for one in shop.asked] == ["/v1/items/..%2F..%2Fadmin"]


async def test_a_header_has_no_second_line(shop: Served) -> None:
    found = await called([tools_of(shop)], ("getItem", {"path_id": "1", "X-Trace": "a\r\nX-Key: other"}))
    assert "`X-Trace` goes into a header, and must not have line ends" in found.texts[0]
    assert shop.asked == []


# -- keys ------------------------------------------------------------------------------------------------------------


async def test_keys_go_where_the_document_says_and_the_model_is_not_asked_for_them(shop: Served) -> None:
    """FA-114: header, query, cookie, basic and bearer; none of them is in what the model is told."""
    tokens = iter(["first", "second"])

    async def token() -> str:
        return next(tokens)

    without_basic = {name: one for name, one in KEYS.items() if name != "basic"} | {"bearer": token}
    tools = tools_of(shop)
    by_token = tools_of(shop, auth=without_basic, keep=["delete_items_id"], prefix="t_")
    found = await called(
        [tools, by_token],
        ("search", {}),
        ("picture", {}),
        ("delete_items_id", {"id": "1"}),
        ("t_delete_items_id", {"id": "1"}),
        ("t_delete_items_id", {"id": "2"}),
    )
    search, picture, basic, first, second = shop.asked
    assert search.path == "/v1/search?api_key=sk%20query%2F1"
    assert picture.headers["cookie"] == "sid=sid-1"
    assert basic.headers["authorization"] == "Basic YWRhOnB3OjE="
    assert [(one.headers["authorization"], one.headers["x-key"]) for one in (first, second)] == [
        ("Bearer first", KEYS["key"]),
        ("Bearer second", KEYS["key"]),
    ]
    assert found.outcomes[1].result.content == (Media(data=b"\x89PNG", media_type="image/png"),)
    loaded = {tool.name: tool for tool in await tools.load()}
    assert loaded["search"].parameters["properties"] == {}
    told = "".join(f"{tool!r}{tool.to_json()}" for tool in loaded.values()) + repr(tools)
    assert not [secret for secret in ("sk-test-123456", "sk query", "sid-1", "pw:1") if secret in told]


async def test_a_key_in_a_url_stands_in_no_error(shop: Served) -> None:
    """FA-114: the service is gone, and what is told does not repeat what was sent."""
    tools = tools_of(shop, keep=["search"])
    loaded = list(await tools.load())
    gone = [OpenAPITools(DOCUMENT, base_url="http://127.0.0.1:1", auth=KEYS, keep=["search"])]
    found = await called(gone, ("search", {}))
    assert "cannot be connected to" in found.texts[0]
    assert "sk query" not in found.texts[0]
    assert "query%2F1" not in found.texts[0]
    assert len(loaded) == 1


async def test_a_token_of_oauth_is_the_program_s(shop: Served) -> None:
    data = copy.deepcopy(DOCUMENT)
    data["paths"]["/moved"]["get"]["security"] = [{"oauth": ["read"]}]
    service = OpenAPITools(data, base_url=shop.url, auth={"oauth": "t-1"}, keep=["moved"])
    await called([service], ("moved", {}))
    assert shop.asked[0].headers["authorization"] == "Bearer t-1"


async def test_security_schemes_that_are_none_are_told() -> None:
    data = copy.deepcopy(DOCUMENT)
    data["components"]["securitySchemes"] = {
        "a": {"type": "apiKey", "in": "body", "name": "x"},
        "b": {"type": "mutualTLS"},
        "c": {"$ref": "#/nowhere"},
    }
    auth = {"a": "1", "b": "2", "c": "3"}
    with pytest.raises(ToolDefinitionError) as told:
        await OpenAPITools(data, base_url="https://x.example", auth=auth, keep=["login"]).load()
    assert told.value.faults == (
        "#/components/securitySchemes/a: an apiKey has a `name`, and `in` is header, query or cookie",
        "#/components/securitySchemes/b: security schemes of the type 'mutualTLS' are not known",
        "#/components/securitySchemes/c: there is no `#/nowhere` in the document",
    )
    faults: list[str] = []
    assert repr(Credentials(Document(DOCUMENT), KEYS, faults)) == "Credentials(key, query_key, cookie, basic)"


async def test_an_operation_whose_key_is_not_given_is_a_fault(shop: Served) -> None:
    with pytest.raises(ToolDefinitionError) as told:
        await tools_of(shop, auth={"cookie": "c", "other": "x"}, keep=["delete_items_id", "search", "login"]).load()
    assert told.value.faults == (
        "auth= names the security scheme `other`, and the document has `key`, `query_key`, `cookie`, "
        "`basic`, `bearer`, `oauth`",
        "#/paths/~1items~1{id}/delete: `delete_items_id` needs `basic` or `bearer` with `key`: give it in auth=",
    )


# -- what comes back -------------------------------------------------------------------------------------------------


async def test_errors_of_the_service_are_told_with_what_it_says(shop: Served) -> None:
    found = await called([tools_of(shop)], ("getItem", {"path_id": "none"}), ("broken", {}))
    assert 'the service answered with status 404: {"error": "no such item"}' in found.texts[0]
    assert "the service says that it answers in JSON, and it does not" in found.texts[1]


async def test_an_answer_that_is_too_large_is_refused(shop: Served) -> None:
    found = await called([tools_of(shop, max_bytes=10)], ("getItem", {"path_id": "1"}))
    assert "the answer has more than 10 bytes" in found.texts[0]


async def test_no_redirect_leads_to_another_origin(shop: Served) -> None:
    """FA-110, FA-114: the other server sees no request, and so no key."""
    with serving(lambda asked: Answered(302, headers={"location": f"{shop.url}/v1/items/1"})) as moving:
        found = await called([tools_of(moving, keep=["moved"])], ("moved", {}))
    assert "redirects to another origin, which is not followed" in found.texts[0]
    assert shop.asked == []


@pytest.mark.parametrize(
    ("status", "seen"), [(303, [("PUT", b'{"name": "x"}'), ("GET", b"")]), (307, [("PUT", b'{"name": "x"}')] * 2)]
)
async def test_a_redirect_within_the_service_is_followed_as_its_status_means(
    status: int, seen: list[tuple[str, bytes]]
) -> None:
    """A body that is not sent again leaves its type behind; a key of the same origin goes along."""

    def move(asked: Asked) -> Answered:
        if asked.path == "/items/1":
            return Answered(status, headers={"location": "/there"})
        return Answered(body=b"{}", headers={"content-type": "application/json"})

    with serving(move) as moving:
        found = await called(
            [OpenAPITools(DOCUMENT, base_url=moving.url, auth=KEYS, keep=["put item"])],
            ("put_item", {"id": "1", "body": {"name": "x"}}),
        )
    assert found.texts == ["{}"]
    assert [(one.method, one.body) for one in moving.asked] == seen
    assert [one.headers["x-key"] for one in moving.asked] == [KEYS["key"]] * 2
    assert ("content-type" in moving.asked[1].headers) == (status == 307)


async def test_a_service_that_only_the_document_names_must_be_public(shop: Served) -> None:
    """FA-110: a document from elsewhere does not lead to inner addresses, unless the program allows them."""
    data = DOCUMENT | {"servers": [{"url": f"{shop.url}/v1"}]}
    refused = OpenAPITools(data, auth=KEYS, keep=["moved"])
    found = await called([refused], ("moved", {}))
    assert "may not be reached: its address is not a public one" in found.texts[0]
    assert shop.asked == []
    allowed = OpenAPITools(data, auth=KEYS, keep=["moved"], allow=["127.0.0.1"])
    assert not (await called([allowed], ("moved", {}))).outcomes[0].result.is_error


# -- where a document comes from -------------------------------------------------------------------------------------


async def test_a_document_is_read_from_a_url_and_its_server_is_beside_it(shop: Served) -> None:
    tools = OpenAPITools(f"{shop.url}/openapi.json", auth=KEYS, allow=["127.0.0.1"], keep=["moved"])
    assert tools.name == f"{shop.url}/openapi.json"
    found = await called([tools], ("moved", {}))
    assert json.loads(found.texts[0])["path"] == "/v1/moved"
    assert (tools.name, repr(tools)) == ("shop", "OpenAPITools('shop')")
    await tools.close()


async def test_a_document_that_cannot_be_fetched_is_told(shop: Served) -> None:
    with (
        serving(lambda asked: Answered(500)) as broken,
        pytest.raises(ToolError, match="cannot be fetched: status 500"),
    ):
        await OpenAPITools(f"{broken.url}/openapi.json").load()


YAML = """\
openapi: 3.1.0
info: {title: tiny, version: 2020-01-01}
paths:
  /day/{day}:
    get:
      operationId: day
      parameters:
        - {name: day, in: path, required: true, schema: {type: [string, 'null'], default: 2020-01-01}}
      responses:
        200: {content: {text/plain: {schema: {type: string}}}}
"""


@pytest.mark.parametrize(("name", "text"), [("a.yaml", YAML), ("a.json", None)])
async def test_a_document_is_read_from_a_file_in_json_or_yaml(tmp_path: Path, name: str, text: str | None) -> None:
    pytest.importorskip("yaml", reason="pip install 'flowagent[openapi]'")
    path = tmp_path / name
    path.write_text(text or json.dumps(DOCUMENT), encoding="utf-8")
    tools = await OpenAPITools(path, base_url="https://x.example", auth={} if text else KEYS).load()
    if text:
        assert [(tool.name, tool.parameters["properties"]) for tool in tools] == [
            ("day", {"day": {"type": ["string", "null"], "default": "2020-01-01"}})
        ]
    else:
        assert len(tools) == 8


async def test_yaml_without_its_package_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "a.yaml").write_text(YAML, encoding="utf-8")
    with pytest.raises(ImportError, match=re.escape("pip install 'flowagent[openapi]'")):
        await OpenAPITools(tmp_path / "a.yaml").load()


async def test_yaml_builds_no_objects(tmp_path: Path) -> None:
    """Data decides nothing about what is built."""
    pytest.importorskip("yaml", reason="pip install 'flowagent[openapi]'")
    (tmp_path / "a.yaml").write_text("openapi: !!python/object/apply:os.getcwd []\n", encoding="utf-8")
    with pytest.raises(ToolDefinitionError, match="it is neither JSON nor YAML"):
        await OpenAPITools(tmp_path / "a.yaml").load()


# -- what is wrong with a document -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"swagger": "2.0"}, "#/swagger: version 2.0 is not read: convert the document to OpenAPI 3"),
        ({"openapi": "4.0", "paths": {}}, "#/openapi: the version is 4.0, and 3.0 and 3.1 are read"),
        ({"paths": {}}, "#/openapi: the version is not said, and 3.0 and 3.1 are read"),
        ({"openapi": "3.1.0"}, "#/paths: there are none"),
        ({"openapi": "3.1.0", "paths": {}}, "#/paths: there are no operations in it"),
    ],
)
async def test_what_is_no_document_is_told(data: dict[str, Any], fault: str) -> None:
    with pytest.raises(ToolDefinitionError) as told:
        await OpenAPITools(data, base_url="https://x.example").load()
    assert told.value.faults == (fault,)


@pytest.mark.parametrize("text", ["{", "[1, 2"])
async def test_broken_json_is_told_with_its_place(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    with pytest.raises(ToolDefinitionError, match=r"it is broken JSON: .*line 1 column"):
        await OpenAPITools(tmp_path / "a.json").load()


async def test_all_faults_of_a_document_are_told_at_once_with_where_they_stand() -> None:
    data = copy.deepcopy(DOCUMENT)
    item = data["paths"]["/items/{id}"]
    item["get"]["parameters"] = [
        {"name": "a", "in": "body"},
        {"name": "b", "in": "query", "style": "simple"},
        {"$ref": "#/components/parameters/None"},
        {"name": "c", "in": "query", "schema": {"$ref": "other.json#/X"}},
        {"name": "d", "in": "query", "content": {"text/csv": {}}},
        {"name": "e", "in": "query", "schema": []},
        7,
    ]
    item["put"]["requestBody"] = {"content": {"multipart/form-data": {}}}
    data["paths"]["/login"]["post"]["operationId"] = "search"
    data["paths"]["/round"] = {"$ref": "#/paths/~1round"}
    data["paths"]["/no/{where}"] = {"get": {"parameters": [{"name": "there", "in": "path"}], "security": []}}
    data["paths"]["/odd"] = {"get": 1}
    data["components"]["securitySchemes"]["basic"]["scheme"] = "digest"
    data["servers"] = [{"url": "ftp://x.example"}]
    with pytest.raises(ToolDefinitionError) as told:
        await OpenAPITools(data, auth=KEYS | {"bearer": "b"}).load()
    get, put = "#/paths/~1items~1{id}/get", "#/paths/~1items~1{id}/put"
    assert told.value.what == "OpenAPI document `shop`"
    assert told.value.faults == (
        "#/components/securitySchemes/basic: of HTTP schemes only basic and bearer are known, not 'digest'",
        "#/paths/~1round: references lead round in a circle",
        "#/paths/~1odd/get: an operation is an object",
        "#/paths/~1search/get: the operationId `search` is that of #/paths/~1login/post already",
        f"{get}/parameters/0: a parameter has a `name`, and `in` is one of path, query, header, cookie, not 'body'",
        f"{get}/parameters/1: the style `simple` is none for query; it is one of form, spaceDelimited, pipeDelimited, "
        "deepObject",
        f"{get}/parameters/2: there is no `#/components/parameters/None` in the document",
        f"{get}/parameters/3/schema/$ref: `other.json#/X` is another document, which is not read: put all into one "
        "document first",
        f"{get}/parameters/4/content: a parameter with `content` has JSON in it, not text/csv",
        f"{get}/parameters/5/schema: a schema should stand here, not []",
        f"{get}/parameters/6: an object should stand here, not 7",
        f"{put}/requestBody/content: bodies are written as JSON, `application/x-www-form-urlencoded` and text, not as "
        "multipart/form-data",
        "#/paths/~1no~1{where}/get: `there` of the path `/no/{where}` is a parameter and not in the path",
        "#/paths/~1no~1{where}/get: `where` of the path `/no/{where}` is no parameter of it",
        "where the service is: 'ftp://x.example' is not of the web: give a URL that begins with https:// or http://; "
        "give base_url=",
    )


async def test_a_schema_that_is_none_is_told_with_the_operation_that_has_it() -> None:
    data = copy.deepcopy(DOCUMENT)
    data["components"]["parameters"]["Id"]["schema"] = {"type": "text"}
    with pytest.raises(ToolDefinitionError) as told:
        await OpenAPITools(data, base_url="https://x.example", auth=KEYS, keep=["getItem"]).load()
    assert told.value.faults == (
        "#/paths/~1items~1{id}/get: its parameters are no JSON schema: $.properties.path_id.type: 'text' is not valid "
        "under any of the given schemas",
    )


async def test_only_what_is_kept_is_checked_and_a_name_that_is_none_is_told(shop: Served) -> None:
    data = copy.deepcopy(DOCUMENT)
    data["paths"]["/login"]["post"]["requestBody"] = {"content": {"multipart/form-data": {}}}
    (tool,) = await OpenAPITools(data, base_url=shop.url, auth=KEYS, keep=["getItem"]).load()
    assert tool.name == "getItem"
    with pytest.raises(
        ToolDefinitionError, match="keep= names `get_item`, and there is no such operation; there are `getItem`"
    ):
        await OpenAPITools(data, base_url=shop.url, auth=KEYS, keep=["get_item"]).load()
