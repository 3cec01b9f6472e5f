"""Tools of MCP servers: an object in this process, a real process, and a real server over HTTP."""

from __future__ import annotations

import asyncio
import io
import re
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.server import Server
from mcp_types import CallToolResult, ImageContent, ListToolsResult, PaginatedRequestParams
from mcp_types import Tool as Declared

from flowagent.errors import ToolDefinitionError, ToolError
from flowagent.models.messages import Media, Text
from flowagent.tools.connection import Connection
from flowagent.tools.mcp import MCPTools
from flowagent.tools.toolbox import Toolbox
from tests.patience import PATIENCE
from tests.tools.in_a_run import called
from tests.tools.mcp_server import made
from tests.tools.serving import Answered, serving

SERVER = Path(__file__).with_name("mcp_server.py")


def by_process(*, env: dict[str, str] | None = None, **options: Any) -> MCPTools:
    return MCPTools(sys.executable, args=[str(SERVER), "stdio"], env=env, **options)


@contextmanager
def by_http() -> Generator[str]:
    """A server over HTTP in a process of its own; its URL."""
    process = subprocess.Popen([sys.executable, str(SERVER), "http", "0"], stderr=subprocess.PIPE, text=True, bufsize=1)
    assert process.stderr is not None
    rest = threading.Thread(target=process.stderr.read)
    try:
        for line in process.stderr:
            if at := re.search(r"running on (http://127\.0\.0\.1:\d+)", line):
                break
        else:
            pytest.fail("the server did not start")
        rest.start()
        yield f"{at[1]}/mcp"
    finally:
        process.terminate()
        process.wait()
        rest.join()
        process.stderr.close()


# -- what a server offers --------------------------------------------------------------------------------------------


async def test_a_server_s_tools_are_declared_as_it_says() -> None:
    async with MCPTools(made(), prefix="w_", keep=["forecast"]) as server:
        (tool,) = await server.load()
    assert (tool.name, tool.description, tool.origin) == (
        "w_forecast",
        "Tell tomorrow's weather.",
        "MCP server `weather`",
    )
    assert tool.parameters["properties"]["unit"]["enum"] == ["c", "f"]
    assert tool.parameters["required"] == ["city"]
    assert tool.returns is not None
    assert set(tool.returns["properties"]) == {"city", "degrees"}
    assert tool.tags == ("mcp", "read-only")


async def test_results_of_every_kind_are_told() -> None:
    """FA-062: data, text, pictures, sounds, resources and nothing at all, each by one rule."""
    async with MCPTools(made()) as server:
        found = await called(
            [server],
            ("forecast", {"city": "Rome"}),
            ("count", {}),
            ("say", {"text": "SYSTEM: {a} {{ b }}"}),
            ("paint", {}),
            ("everything", {}),
            ("nothing", {}),
        )
    assert [one.result.content for one in found.outcomes] == [
        (Text(text='{"city":"Rome","degrees":21.5}'),),
        (Text(text='{"result":1}'),),
        (Text(text="SYSTEM: {a} {{ b }}"),),
        (Text(text="a dot"), Media(data=b"\x89PNG", media_type="image/png")),
        (
            Media(data=b"\x00\x01", media_type="audio/wav"),
            Text(text="resource file:///r.txt (report; of the year)"),
            Text(text="inside"),
            Media(data=b"\x00\x02", media_type="application/octet-stream", name="file:///b.bin"),
        ),
        (Text(text="(no result)"),),
    ]


async def test_what_fails_on_the_server_is_told_to_the_model() -> None:
    async with MCPTools(made()) as server:
        found = await called([server], ("fail", {}), ("forecast", {"city": 1}), ("say", {"text": "still there"}))
    assert found.texts[0].startswith("ERROR")
    assert "fail" in found.texts[0]
    assert "hidden" not in found.texts[0]
    assert "`city`: 1 is not of type 'string'" in found.texts[1]
    assert found.texts[2] == "still there"


async def test_media_that_are_broken_fail_the_call() -> None:
    async def call_tool(ctx: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[ImageContent(type="image", data="no base64!", mime_type="image/png")])

    async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Declared(name="paint", input_schema={"type": "object"})])

    server: Server[Any] = Server("broken", on_list_tools=list_tools, on_call_tool=call_tool)
    async with MCPTools(server) as tools:
        found = await called([tools], ("paint", {}))
    assert "the server sent media that is no base64" in found.texts[0]


async def test_a_tool_that_the_server_has_no_more_is_told() -> None:
    server = made()
    async with MCPTools(server) as tools:
        loaded = await Toolbox([tools]).load()
        server.remove_tool("say")
        found = await called(list(loaded.tools), ("say", {"text": "x"}))
    assert found.texts[0].startswith("ERROR")
    assert "say" in found.texts[0]


async def test_progress_is_told_to_whoever_watches() -> None:
    async with MCPTools(made(), prefix="w_") as server:
        found = await called([server], ("w_work", {}))
    assert found.texts == ['{"result":"done"}']
    assert found.emitted == [
        {"tool": "w_work", "progress": 1.0, "total": 2.0, "message": "half"},
        {"tool": "w_work", "progress": 2.0, "total": 2.0, "message": "whole"},
    ]


def paged(pages: int) -> Server[Any]:
    """A server that tells one tool a page."""

    async def list_tools(ctx: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        page = int(params.cursor) if params and params.cursor else 0
        tool = Declared(name=f"t{page}", input_schema={"type": "object"})
        return ListToolsResult(tools=[tool], next_cursor=str(page + 1) if page + 1 < pages else None)

    return Server("paged", on_list_tools=list_tools)


async def test_all_pages_of_the_list_are_read() -> None:
    async with MCPTools(paged(5)) as server:
        assert [tool.name for tool in await server.load()] == ["t0", "t1", "t2", "t3", "t4"]


async def test_a_list_without_end_is_given_up() -> None:
    async with MCPTools(paged(10**9)) as server:
        with pytest.raises(ToolError, match="does not list its tools: the list has more than 1000 pages"):
            await server.load()


async def test_all_that_a_server_declares_wrongly_is_told_at_once_and_can_be_left_out() -> None:
    """A schema that refers to elsewhere is refused: nothing is fetched because a server says so."""
    schemas: dict[str, dict[str, Any]] = {
        "away": {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1/x.json"}}},
        "gone": {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
        "odd": {"type": "object", "properties": {"a": {"type": "strin"}}},
        "good": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}},
    }

    async def list_tools(ctx: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[Declared(name=name, input_schema=schema) for name, schema in schemas.items()])

    server: Server[Any] = Server("careless", on_list_tools=list_tools)
    async with MCPTools(server) as tools:
        with pytest.raises(ToolDefinitionError) as told:
            await tools.load()
    assert told.value.faults == (
        "tool `away`: its schema refers to `http://127.0.0.1/x.json`, which is not in it",
        "tool `gone`: its schema refers to `#/$defs/none`, which is not in it",
        "tool `odd`: its parameters are no JSON schema: $.properties.a.type: 'strin' is not valid under any of the "
        "given schemas",
        "keep= leaves out what the server declares wrongly",
    )
    async with MCPTools(server, keep=["good"]) as tools:
        assert [tool.name for tool in await tools.load()] == ["good"]


async def test_only_what_is_kept_is_offered_and_a_name_that_is_none_is_told() -> None:
    async with MCPTools(made(), keep=lambda name: "s" in name) as server:
        assert [tool.name for tool in await server.load()] == ["forecast", "say", "sleep"]
    async with MCPTools(made(), keep=["say", "sing"]) as server:
        with pytest.raises(ToolDefinitionError, match="keep= names `sing`, and it has no such tool; it has `forecast`"):
            await server.load()


async def test_two_servers_with_equal_names_clash_until_one_has_a_prefix() -> None:
    """FA-054: neither overwrites the other, and both origins are named."""
    one, two = MCPTools(made("one"), keep=["say"]), MCPTools(made("two"), keep=["say"])
    with pytest.raises(ToolDefinitionError) as told:
        await Toolbox([one, two]).load()
    assert "MCP server `one`" in str(told.value)
    assert "MCP server `two`" in str(told.value)
    apart = MCPTools(made("two"), keep=["say"], prefix="two_")
    found = await called([one, apart], ("say", {"text": "1"}), ("two_say", {"text": "2"}))
    assert found.texts == ["1", "2"]
    for server in (one, two, apart):
        await server.close()


async def test_options_are_those_of_all_its_tools() -> None:
    async with MCPTools(made(), keep=["say"], approval=True, tags=("outer",), sequential=True) as server:
        (tool,) = await server.load()
    assert (tool.approval, tool.tags, tool.sequential, tool.untrusted) == (True, ("outer", "mcp"), True, True)


# -- a process -------------------------------------------------------------------------------------------------------


async def test_a_process_is_started_used_and_ended(tmp_path: Path) -> None:
    """FA-114: the process gets what it is given and no other secret of ours."""
    async with by_process(env={"GIVEN": "yes"}) as server:
        found = await called(
            [server],
            ("count", {}),
            ("count", {}),
            ("environment", {"name": "GIVEN"}),
            ("environment", {"name": "PYTEST_CURRENT_TEST"}),
        )
    assert found.texts == ['{"result":1}', '{"result":2}', '{"result":"yes"}', '{"result":"(unset)"}']


async def test_a_server_that_dies_in_a_call_fails_that_call_and_the_next_one_starts_it_anew() -> None:
    async with by_process() as server:
        found = await called([server], ("count", {}), ("die", {}), ("count", {}))
    assert found.texts[0] == '{"result":1}'
    assert found.texts[1].startswith("ERROR")
    assert "the connection was lost before it answered" in found.texts[1]
    assert found.texts[2] == '{"result":1}', "a new process counts from the beginning"


async def test_a_call_that_takes_too_long_is_told_and_the_server_stays() -> None:
    async with by_process(timeout=PATIENCE) as server:
        await server.load()
        server._timeout = 0.2
        found = await called([server], ("count", {}), ("sleep", {}), ("count", {}))
    assert "it did not answer within 0.2 seconds" in found.texts[1]
    assert found.texts[2] == '{"result":2}'


async def test_a_call_that_is_cancelled_leaves_the_connection_to_the_others() -> None:
    async with by_process() as server:
        await called([server], ("count", {}))
        sleeping = asyncio.create_task(called([server], ("sleep", {})))
        await asyncio.sleep(0.05)
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
        assert (await called([server], ("count", {}))).texts == ['{"result":2}']


async def test_calls_run_side_by_side_on_one_connection() -> None:
    async with by_process() as server:
        found = await asyncio.gather(*(called([server], ("count", {})) for _ in range(5)))
    assert sorted(one.texts[0] for one in found) == [f'{{"result":{number}}}' for number in range(1, 6)]


@pytest.mark.parametrize("close", [True, False])
def test_a_toolset_serves_one_event_loop_after_another(close: bool) -> None:
    """1H, 15: each loop has a connection of its own, left by the task that entered it, closed or not."""
    server = by_process()

    async def use() -> list[str]:
        try:
            return (await called([server], ("count", {}))).texts
        finally:
            if close:
                await server.close()

    assert [asyncio.run(use()) for _ in range(2)] == [['{"result":1}']] * 2


async def test_closing_closes_the_connections_of_other_loops_too() -> None:
    server = by_process()
    loaded, release, ended = threading.Event(), asyncio.Event(), threading.Event()
    there: list[asyncio.AbstractEventLoop] = []

    async def elsewhere() -> None:
        await server.load()
        connection = next(iter(server._connections.values()))
        there.append(asyncio.get_running_loop())
        loaded.set()
        await asyncio.wait([connection._owner])
        ended.set()

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    await asyncio.to_thread(loaded.wait)
    await server.close()
    await asyncio.to_thread(thread.join)
    assert ended.is_set()
    release.set()


async def test_a_toolset_can_be_used_again_after_it_was_closed() -> None:
    server = MCPTools(made(), keep=["say"])
    for _ in range(2):
        assert (await called([server], ("say", {"text": "x"}))).texts == ["x"]
        await server.close()
        await server.close()


@pytest.mark.parametrize(
    ("command", "args", "told"),
    [
        ("no-such-command-here", (), "MCP server `no-such-command-here` is not there: "),
        (sys.executable, ("-c", "print('hello')"), "is not there: "),
    ],
)
async def test_a_command_that_is_no_server_is_told(command: str, args: tuple[str, ...], told: str) -> None:
    async with MCPTools(command, args=args, connect_timeout=PATIENCE) as server:
        with pytest.raises(ToolError, match=re.escape(told)):
            await server.load()


async def test_a_server_that_never_answers_is_given_up() -> None:
    async with MCPTools(sys.executable, args=["-c", "input(); input()"], connect_timeout=0.3, name="mute") as server:
        with pytest.raises(ToolError, match=r"MCP server `mute` is not there: no connection within 0\.3 seconds"):
            await server.load()


# -- HTTP ------------------------------------------------------------------------------------------------------------


async def test_a_server_over_http_is_used() -> None:
    with by_http() as url:
        async with MCPTools(url, name="web") as server:
            found = await called([server], ("forecast", {"city": "Rome"}), ("work", {}), ("fail", {}))
    assert found.texts[:2] == ['{"city":"Rome","degrees":21.5}', '{"result":"done"}']
    assert found.texts[2].startswith("ERROR")
    assert [one["message"] for one in found.emitted] == ["half", "whole"]


async def test_a_server_over_http_that_is_gone_is_told() -> None:
    with by_http() as url:
        server = MCPTools(url, name="web", timeout=PATIENCE)
        tools = await server.load()
    found = await called(list(tools), ("say", {"text": "x"}), ("say", {"text": "x"}))
    assert all(text.startswith("ERROR") for text in found.texts)
    assert "MCP server `web`" in found.texts[1]
    await server.close()


async def test_headers_are_sent_and_shown_nowhere() -> None:
    """FA-114: a key in a header, and one in the URL, stand in no message and no repr."""
    secret = "sk-test-123456"
    with serving(lambda asked: Answered(401, b"{}", {"content-type": "application/json"})) as refusing:
        server = MCPTools(f"{refusing.url}/mcp?key={secret}", headers={"Authorization": f"Bearer {secret}"})
        with pytest.raises(ToolError) as told:
            await server.load()
        await server.close()
    assert {one.headers["authorization"] for one in refusing.asked} == {f"Bearer {secret}"}
    assert secret not in f"{told.value}{server!r}{server.name}"


# -- making one ------------------------------------------------------------------------------------------------------


def test_options_that_do_not_go_together_are_all_told_at_once() -> None:
    with pytest.raises(ToolDefinitionError) as told:
        MCPTools("http://x.example/mcp", args="a b", env={"A": "1"}, cwd="/")
    assert told.value.faults == (
        "args= is for a command, which 'http://x.example/mcp' is not",
        "env= is for a command, which 'http://x.example/mcp' is not",
        "cwd= is for a command, which 'http://x.example/mcp' is not",
        "args= takes a list of arguments, such as args=['a', 'b']",
    )
    with pytest.raises(ToolDefinitionError, match="headers= is for a URL"):
        MCPTools("command", headers={"a": "b"})


@pytest.mark.parametrize(
    ("server", "name"),
    [
        ("https://user:pw@x.example/mcp?key=k", "x.example/mcp"),
        ("https://x.example/mcp", "https://x.example/mcp"),
        ("uvx", "uvx"),
        (StdioServerParameters(command="npx"), "npx"),
        (made("inner"), "inner"),
        (object(), "object"),
    ],
)
def test_a_server_is_called_by_what_can_be_told_of_it(server: object, name: str) -> None:
    assert MCPTools(server).name == name
    assert repr(MCPTools(server)) == f"MCPTools({name!r})"


async def test_the_package_s_own_parameters_and_functions_that_make_transports_are_taken() -> None:
    parameters = StdioServerParameters(command=sys.executable, args=[str(SERVER), "stdio"])
    for server in (parameters, lambda: parameters):
        async with MCPTools(server, name="own", keep=["say"]) as tools:
            assert (await called([tools], ("say", {"text": "x"}))).texts == ["x"]


async def test_without_the_package_the_first_use_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    server = MCPTools("uvx")
    with pytest.raises(ImportError, match=re.escape("pip install 'flowagent[mcp]'")):
        await server.load()
    await server.close()


def test_naming_a_server_imports_nothing_of_the_package() -> None:
    late = "{'mcp', 'httpx2'}"
    probe = f"import sys; from flowagent.tools.mcp import MCPTools; MCPTools('uvx'); print({late} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# -- connections -----------------------------------------------------------------------------------------------------


async def test_a_connection_is_entered_and_left_by_one_task_whoever_uses_it() -> None:
    """15: one owner per connection."""
    tasks: list[object] = []

    class Held:
        async def __aenter__(self) -> str:
            tasks.append(asyncio.current_task())
            return "open"

        async def __aexit__(self, *raised: object) -> None:
            tasks.append(asyncio.current_task())

    connection = Connection(Held, label="it", timeout=5)
    assert await asyncio.gather(connection.opened(), connection.opened()) == ["open", "open"]
    await asyncio.create_task(connection.close())
    assert connection.is_over
    assert len(set(map(id, tasks))) == 1
    assert tasks[0] is not asyncio.current_task()


async def test_a_connection_that_is_closed_before_it_is_open_says_so() -> None:
    @asynccontextmanager
    async def never() -> AsyncGenerator[str]:
        await asyncio.Event().wait()
        yield "open"

    connection = Connection(never, label="it", timeout=60)
    waiting = asyncio.create_task(connection.opened())
    await asyncio.sleep(0)
    connection._owner.cancel()
    with pytest.raises(ToolError, match="it is not there: it was closed before it was open"):
        await waiting


@pytest.mark.parametrize("also", [True, False], ids=["the first one is a file", "no stream is a file"])
async def test_a_process_is_started_where_stderr_is_no_file(also: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook, whose streams are objects without a descriptor."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    if not also:
        monkeypatch.setattr(sys, "__stderr__", None)
    async with by_process(keep=["say"]) as server:
        assert [one.name for one in await server.load()] == ["say"]
