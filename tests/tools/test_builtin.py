"""The tools that come along, as a model calls them in a run."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from flowagent import END, START, Context, Graph, State
from flowagent.models.messages import Media, ToolCall
from flowagent.stores import MemoryStore
from flowagent.tools.builtin.calculator import calculator
from flowagent.tools.builtin.clock import Clock
from flowagent.tools.builtin.fetch import Fetch
from flowagent.tools.builtin.files import Files
from flowagent.tools.toolbox import Toolbox
from tests.tools.in_a_run import called
from tests.tools.serving import Answered, serving

MODULES = ("addresses", "calculator", "clock", "fetch", "files", "folder")


async def test_all_of_them_stand_side_by_side_and_are_told_as_json_or_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    clock = Clock(now=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    with serving(lambda asked: Answered(body=b"page", headers={"content-type": "text/plain"})) as served:
        found = await called(
            [calculator, clock, Files(tmp_path, writable=True), Fetch(allow=["127.0.0.1"])],
            ("calculate", {"expression": "19 + 23"}),
            ("calculate", {"expression": "1/0"}),
            ("current_time", {}),
            ("read_file", {"path": "a.txt", "max_lines": 1}),
            ("search_files", {"text": "TWO"}),
            ("write_file", {"path": "b/c.txt", "content": "x"}),
            ("read_file", {"path": "../a.txt"}),
            ("fetch", {"url": served.url}),
            ("fetch", {"url": "http://169.254.169.254/"}),
        )
    assert found.texts[0] == "42"
    assert found.texts[1].startswith("ERROR")
    assert found.texts[1].endswith("`1/0` divides by zero")
    assert found.texts[2:6] == [
        '{"iso":"2026-01-02T03:04:05+00:00","weekday":"Friday","zone":"UTC","abbreviation":"UTC"}',
        "one\n",
        '{"hits":[{"path":"a.txt","line":2,"text":"two"}],"complete":true,"skipped":0}',
        "wrote 1 bytes to the new file `b/c.txt`",
    ]
    assert "`..` leads out of folders" in found.texts[6]
    assert found.texts[7] == f'{{"url":"{served.url}","media_type":"text/plain","text":"page","cut":false}}'
    assert "may not be reached" in found.texts[8]


async def test_media_come_as_media(tmp_path: Path) -> None:
    with serving(lambda asked: Answered(body=b"\x89PNG", headers={"content-type": "image/png"})) as served:
        found = await called([Fetch(allow=["127.0.0.1"], media=["image/*"])], ("fetch", {"url": served.url}))
    assert found.outcomes[0].result.content == (Media(data=b"\x89PNG", media_type="image/png", name=served.url),)


def test_a_model_is_told_how_to_call_them(tmp_path: Path) -> None:
    """Every tool and every parameter has a description, and none of it is for programmers."""
    toolbox = Toolbox([calculator, Clock(), Files(tmp_path, writable=True), Fetch()])
    assert toolbox.faults() == []
    assert toolbox.lint() == []
    for tool in toolbox.tools:
        assert tool.description
        assert not {"Raises", "ToolError", ">>>"} & set(tool.description.split())
        assert all(one.get("description") for one in tool.parameters["properties"].values()), tool.name


async def test_writing_waits_for_approval_where_the_program_says_so(tmp_path: Path) -> None:
    files = Files(tmp_path, writable=True, approval=True)
    assert {tool.name for tool in files.tools() if tool.approval} == {"write_file", "append_file", "delete_file"}

    class Told(State):
        text: str = ""

    g = Graph("writing", Told)

    @g.node
    async def write(state: Told, ctx: Context[object, Told]) -> dict[str, str]:
        loaded = await Toolbox([files]).load()
        call = ToolCall(id="c", name="write_file", arguments='{"path": "a.txt", "content": "x"}')
        return {"text": (await loaded.run(call, ctx)).result.text}

    g.chain(START, write, END)
    assert (await g.run(Told(), store=MemoryStore())).status == "waiting"
    assert files.list_files().entries == ()


def test_importing_them_loads_no_package_that_is_used_later() -> None:
    """All in one process: what any of them loaded would be there."""
    modules = ", ".join(f"flowagent.tools.builtin.{name}" for name in MODULES)
    late = "{'httpx2', 'justhtml', 'mcp', 'referencing', 'jsonschema', 'yaml'}"
    probe = f"import sys; import {modules}; print(sorted({late} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
