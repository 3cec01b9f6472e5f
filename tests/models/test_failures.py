"""Each kind of failure from each provider, as the real package raises it for what a real server sends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import get_args

import pytest

from flowagent.errors import ModelError, ModelErrorKind
from flowagent.models.failures import RETRYABLE, retry_after
from flowagent.models.retrying import Retrying
from tests.models.asking import asked
from tests.models.serving import Answer, Server, refusal, stream
from tests.models.wire import (
    ANTHROPIC,
    CHAT,
    RESPONSES,
    anthropic_error,
    anthropic_start,
    chat_error,
    event,
    response,
    response_created,
    response_error,
)


def anthropic_says(status: int, kind: str, message: str = "so it is") -> Answer:
    return refusal(status, {"type": "error", "error": {"type": kind, "message": message}}, request_id="req_7")


def openai_says(status: int, kind: str, code: str | None, message: str = "so it is") -> Answer:
    return refusal(status, {"error": {"message": message, "type": kind, "code": code}}, x_request_id="req_7")


def response_failed(code: str) -> bytes:
    failed = response("failed", [], error={"code": code, "message": "so it is"}, usage=None)
    return event({"type": "response.failed", "sequence_number": 2, "response": failed})


FROM_ANTHROPIC: list[tuple[ModelErrorKind, Answer]] = [
    ("bad_request", anthropic_says(400, "invalid_request_error")),
    (
        "context_exceeded",
        anthropic_says(400, "invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
    ),
    ("auth", anthropic_says(401, "authentication_error")),
    ("quota", anthropic_says(402, "billing_error")),
    ("auth", anthropic_says(403, "permission_error")),
    ("not_found", anthropic_says(404, "not_found_error")),
    ("timeout", anthropic_says(408, "timeout_error")),
    ("context_exceeded", anthropic_says(413, "request_too_large")),
    ("rate_limit", anthropic_says(429, "rate_limit_error")),
    ("server", anthropic_says(500, "api_error")),
    ("timeout", anthropic_says(504, "timeout_error")),
    ("overloaded", anthropic_says(529, "overloaded_error")),
    ("overloaded", stream([anthropic_start(), anthropic_error("overloaded_error", "so it is")])),
    ("server", stream([anthropic_start(), anthropic_error("api_error", "so it is")])),
    ("rate_limit", stream([anthropic_error("rate_limit_error", "so it is")])),
    ("server", Answer(pieces=(b"<html>Bad gateway</html>",), status=502)),
]
FROM_BOTH_OF_OPENAI: list[tuple[ModelErrorKind, Answer]] = [
    ("bad_request", openai_says(400, "invalid_request_error", None)),
    ("bad_request", openai_says(422, "invalid_request_error", None)),
    ("context_exceeded", openai_says(400, "invalid_request_error", "context_length_exceeded")),
    ("context_exceeded", openai_says(400, "exceed_context_size_error", None)),
    ("context_exceeded", openai_says(400, "x", None, "This model's maximum context length is 8192 tokens.")),
    ("refused", openai_says(400, "invalid_request_error", "content_policy_violation")),
    ("auth", openai_says(401, "invalid_request_error", "invalid_api_key")),
    ("auth", openai_says(403, "x", None)),
    ("not_found", openai_says(404, "invalid_request_error", "model_not_found")),
    ("timeout", openai_says(408, "x", None)),
    ("server", openai_says(409, "x", None)),
    ("rate_limit", openai_says(429, "requests", "rate_limit_exceeded")),
    ("quota", openai_says(429, "insufficient_quota", "insufficient_quota")),
    ("server", openai_says(500, "server_error", None)),
    ("overloaded", openai_says(503, "server_error", "server_is_overloaded")),
    ("overloaded", openai_says(503, "x", None)),
    ("server", Answer(pieces=(b"<html>Bad gateway</html>",), status=502)),
]
FROM_RESPONSES: list[tuple[ModelErrorKind, Answer]] = [
    ("rate_limit", stream([response_created(), response_error("rate_limit_exceeded", "so it is")])),
    ("server", stream([response_created(), response_error("server_error", "so it is")])),
    ("server", stream([response_created(), response_failed("server_error")])),
    ("rate_limit", stream([response_created(), response_failed("rate_limit_exceeded")])),
    ("refused", stream([response_created(), response_failed("bio_policy")])),
    ("context_exceeded", stream([response_created(), response_error("context_length_exceeded", "so it is")])),
]
FROM_CHAT: list[tuple[ModelErrorKind, Answer]] = [
    ("server", stream([chat_error("server_error", "so it is")])),
    ("overloaded", stream([chat_error("slow_down", "so it is")])),
    ("context_exceeded", stream([chat_error("exceed_context_size_error", "so it is")])),
]
TABLE = [
    *((ANTHROPIC, *row) for row in FROM_ANTHROPIC),
    *((api, *row) for api in (RESPONSES, CHAT) for row in FROM_BOTH_OF_OPENAI),
    *((RESPONSES, *row) for row in FROM_RESPONSES),
    *((CHAT, *row) for row in FROM_CHAT),
]


@pytest.mark.parametrize("row", range(len(TABLE)), ids=lambda row: f"{row} {TABLE[row][0].name} {TABLE[row][1]}")
async def test_each_failure_gets_its_kind(server: Server, row: int) -> None:
    api, kind, answer = TABLE[row]
    server.answers(answer)
    with pytest.raises(ModelError) as caught:
        await api.open(server.url, retrying=Retrying(attempts=1)).request(asked())
    error = caught.value
    assert (error.kind, error.retryable) == (kind, kind in RETRYABLE)
    assert error.status == answer.status
    assert error.model == f"{api.name}:{api.model}"
    assert str(error).startswith(error.model)
    if answer.status not in (200, 502):
        assert error.request_id == "req_7"
        assert b"so it is" not in answer.pieces[0] or "so it is" in str(error)


def test_every_kind_that_a_provider_can_cause_is_tested() -> None:
    # `connection`, `cut_off` and `timeout` of a stream stand in test_providers.py; the last two are raised by us.
    elsewhere = {"connection", "cut_off", "unsupported", "forbidden"}
    assert {row[1] for row in TABLE} | elsewhere == set(get_args(ModelErrorKind))


async def test_a_quota_that_is_used_up_is_not_asked_again(server: Server) -> None:
    server.answers(openai_says(429, "insufficient_quota", "insufficient_quota"))
    for api in (RESPONSES, CHAT):
        with pytest.raises(ModelError):
            await api.open(server.url).request(asked())
    assert len(server.asked) == 2


def test_a_wait_may_be_asked_for_in_seconds_milliseconds_or_as_a_date() -> None:
    assert retry_after({"retry-after": "2"}) == 2
    assert retry_after({"retry-after": "2", "retry-after-ms": "1500"}) == 1.5
    later = retry_after({"retry-after": format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)})
    assert later is not None
    assert 90 < later <= 100
    assert retry_after({"retry-after": format_datetime(datetime.now(UTC) - timedelta(seconds=100), usegmt=True)}) == 0


@pytest.mark.parametrize("value", ["", "soon", "nan", "inf", "-1"])
def test_a_wait_that_makes_no_sense_is_none(value: str) -> None:
    assert retry_after({"retry-after": value}) is None


def test_no_wait_is_asked_for_without_a_header() -> None:
    assert retry_after({}) is None
