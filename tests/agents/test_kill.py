"""An agent's process is killed between two tool calls: no paid request is made again."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.models.serving import Server, stream
from tests.models.wire import anthropic_reply


def start(server: Server, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.agents.paying", server.url, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_no_paid_request_is_made_again_after_a_kill(tmp_path: Path) -> None:
    """Issue 4, item 5: kill -9 between two tool calls, resume: three requests in all, the first tool ran once.

    Only the call that was under way is made again, with the same key; its request had been answered and recorded.
    """
    with Server().running() as server:
        server.answers(
            stream(anthropic_reply(calls=(("c1", "first", "{}"),))),
            stream(anthropic_reply(calls=(("c2", "second", "{}"),))),
            stream(anthropic_reply("Both are done.")),
        )
        effects = tmp_path / "effects"
        killed = start(server, tmp_path)
        while not (effects.exists() and "second" in effects.read_text(encoding="utf-8")):
            assert killed.poll() is None, killed.communicate()
            time.sleep(0.02)
        killed.kill()
        killed.communicate()
        assert len(server.asked) == 2

        out, error = start(server, tmp_path).communicate(timeout=60)
    first, second, again = effects.read_text(encoding="utf-8").split("\n")[:3]
    assert out == "Both are done.|3|2|30|15\n", error
    assert len(server.asked) == 3
    assert (first.split()[0], second.split()[0], again) == ("first", "second", second)
    assert [message["role"] for message in server.asked[2].body["messages"]] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
