"""Clients: one for each event loop, and none of them is left open."""

from __future__ import annotations

import asyncio
import gc
import threading

from flowagent.models.base import Reply, TextDelta
from tests.models.asking import asked
from tests.models.serving import Server, stream
from tests.models.wire import Api


def test_one_model_works_in_one_event_loop_after_another_and_leaves_nothing_open(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("Hello")))
    model = api.open(server.url)
    for _ in range(3):
        assert asyncio.run(model.request(asked())).message.text == "Hello"
    gc.collect()  # what was left open would warn here, and a warning is an error


def test_one_model_works_in_several_threads_at_once(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("Hello")))
    model = api.open(server.url)
    texts: list[str] = []

    def work() -> None:
        async def several() -> list[Reply]:
            return list(await asyncio.gather(*(model.request(asked()) for _ in range(3))))

        texts.extend(reply.message.text for reply in asyncio.run(several()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == ["Hello"] * 12
    gc.collect()


async def test_a_closed_model_opens_again(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("Hello")))
    async with api.open(server.url) as model:
        await model.request(asked())
    await model.close()
    assert (await model.request(asked())).message.text == "Hello"


def test_a_stream_that_is_left_early_leaves_nothing_open(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("Hel|lo")))

    async def leave() -> None:
        parts = api.open(server.url).stream(asked())
        assert await anext(parts) == TextDelta("Hel")
        await parts.aclose()

    asyncio.run(leave())
    gc.collect()
