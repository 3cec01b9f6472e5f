"""Characters that a server cuts in two."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from flowagent.models.base import ModelRequest, Reply, TextDelta
from flowagent.models.halves import Halves, joined
from flowagent.models.messages import user
from tests.models.serving import Server, stream
from tests.models.wire import Api


@given(st.text(), st.lists(st.integers(0, 50)))
def test_a_text_cut_into_units_of_utf_16_comes_back(text: str, cuts: list[int]) -> None:
    """FA-069: cut anywhere, also within a character, the deltas together are the text."""
    data = text.encode("utf-16-le")
    at = sorted({0, len(data) // 2, *(cut for cut in cuts if cut <= len(data) // 2)})
    pieces = [data[2 * a : 2 * b].decode("utf-16-le", "surrogatepass") for a, b in itertools.pairwise(at)]
    halves = Halves()
    told = [halves.more(TextDelta(piece)) for piece in pieces]
    assert "".join(one.text for one in told if isinstance(one, TextDelta)) == text == joined("".join(pieces))


def test_a_half_alone_is_a_mark_that_can_be_stored() -> None:
    assert joined("a\ud83e") == "a\ufffd"


async def test_halves_in_two_events_are_one_character(server: Server, api: Api) -> None:
    """FA-069: a server that cuts by units of UTF-16 writes the halves as escapes of JSON, each valid by itself."""
    events = [one.replace(b"XX", b"\\ud83e").replace(b"YY", b"\\udd16") for one in api.reply("a XX|YY b")]
    server.answers(stream(events))
    parts = [part async for part in api.open(server.url).stream(ModelRequest(messages=(user("hi"),)))]
    reply = parts[-1]
    assert isinstance(reply, Reply)
    assert reply.message.text == "a 🤖 b" == "".join(part.text for part in parts if isinstance(part, TextDelta))
