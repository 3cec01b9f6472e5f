"""Clients: one for each event loop, and none of them is left open."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from flowagent.models.base import Reply, TextDelta
from flowagent.models.clients import _CLOSING
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


def test_a_stream_that_is_forgotten_leaves_nothing_open(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("Hel|lo"), end="held"))

    async def forget() -> None:
        async for part in api.open(server.url).stream(asked()):
            assert part == TextDelta("Hel")
            break

    asyncio.run(forget())
    gc.collect()


def test_a_stream_that_is_cancelled_leaves_nothing_open(api: Api, server: Server) -> None:
    server.answers(stream(api.reply("Hel|lo")[:4], end="held"))

    async def cancel() -> None:
        begun = asyncio.Event()

        async def listen() -> None:
            async for _ in api.open(server.url).stream(asked()):
                begun.set()

        task = asyncio.create_task(listen())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    gc.collect()


async def test_the_connections_of_a_model_that_is_gone_are_closed_while_the_loop_goes_on(
    api: Api, server: Server
) -> None:
    server.answers(stream(api.reply("Hello")))
    model = api.open(server.url)
    await model.request(asked())
    client = await model._clients.get()
    del model
    gc.collect()
    await asyncio.sleep(0)  # the loop hears of it
    await asyncio.gather(*_CLOSING)
    assert client.is_closed()
