"""`Fallback`: the next model is asked when one fails."""

from __future__ import annotations

from decimal import Decimal

import pytest

from flowagent.core.usage import Usage
from flowagent.errors import ModelError, ModelErrorKind
from flowagent.models.base import Profile, Reply, TextDelta, ThinkingDelta, Waiting
from flowagent.models.fallback import Fallback, common_profile
from flowagent.models.scripted import Scripted
from flowagent.models.steps import after, fail, say
from tests.models.asking import asked, ended, said, streamed, told_before

FAILED = Usage(requests=1, failed=1)
COST = Usage(requests=1, input=10, output=2, cost=Decimal("0.5"))


async def test_the_next_model_answers_when_one_fails():
    """Each model is asked once, in order, until one answers."""
    large, small, unused = Scripted(fail("overloaded")), Scripted("from the small one"), Scripted()
    assert (await said(Fallback(large, small, unused))).text == "from the small one"
    assert [len(model.requests) for model in (large, small, unused)] == [1, 1, 0]


async def test_the_cost_of_failed_models_is_counted():
    """FA-117: usage of a reply counts the models that failed before, streamed or not; unknown cost stays unknown."""
    spent = Usage(requests=3, failed=3, input=100, output=0, cost=Decimal(1))
    unknown = ModelError("no word", kind="timeout")
    nobody = ModelError("not asked", kind="unsupported")

    def model() -> Fallback:
        steps = (fail("cut_off", usage=spent), unknown, nobody, say("ok", usage=COST))
        return Fallback(*(Scripted(step) for step in steps))

    whole = Usage(requests=5, failed=4, input=110, output=2, cost=Decimal("1.5"), unmeasured=1, unpriced=1)
    assert (await model().request(asked())).usage == whole
    assert ended(await streamed(model(), asked())).usage == whole


@pytest.mark.parametrize("kind", ["bad_request", "refused", "forbidden"])
async def test_what_is_wrong_with_the_request_is_not_asked_again(kind: ModelErrorKind):
    """A request that is faulty, refused or forbidden fails at the first model, with its very error."""
    error = fail(kind)
    second = Scripted("never")
    with pytest.raises(ModelError) as raised:
        await Fallback(Scripted(error), second).request(asked())
    assert raised.value is error
    assert await told_before(Fallback(Scripted(error), second), asked(), ModelError) == ([], error)
    assert second.requests == ()


async def test_the_kinds_that_count_can_be_chosen():
    """`on` says after which kinds of error the next model is asked."""
    with pytest.raises(ModelError, match="overloaded"):
        await Fallback(Scripted(fail("overloaded")), Scripted("never"), on=["rate_limit"]).request(asked())
    chosen = Fallback(Scripted(fail("rate_limit")), Scripted("ok"), on=["rate_limit"])
    assert (await said(chosen)).text == "ok"


async def test_if_all_fail_every_cause_is_told():
    """The error of them all has the last kind, all usage, and every model's error as its cause."""
    first, second = fail("rate_limit", "slow down", retry_after=9.0), fail("auth", "no key", status=401)
    model = Fallback(
        Scripted(first, name="a:large"), Scripted(second, name="b:small"), Scripted(fail("quota"), name="c:x")
    )
    with pytest.raises(ModelError) as raised:
        await model.request(asked())
    error = raised.value
    assert str(error) == (
        "3 of 3 models were asked and none answered:\n"
        "  - a:large (rate_limit): slow down\n"
        "  - b:small (auth): no key\n"
        "  - c:x (quota): the script says that this request fails: quota"
    )
    assert (error.kind, error.retryable, error.retry_after) == ("quota", True, 9.0)
    assert (error.model, error.usage) == ("fallback:a:large|b:small|c:x", FAILED + FAILED + FAILED)
    assert isinstance(error.__cause__, ExceptionGroup)
    assert error.__cause__.exceptions[:2] == (first, second)


async def test_an_error_that_is_no_model_error_is_not_hidden():
    """A fault in the program is raised as it is, and no other model is asked."""
    second = Scripted("never")
    with pytest.raises(ZeroDivisionError):
        await Fallback(Scripted(ZeroDivisionError()), second).request(asked())
    assert second.requests == ()


# ---------------------------------------------------------------------------------------------------------- streams


async def test_a_stream_tells_that_the_next_model_is_asked():
    """Before the next model is asked, `Waiting` tells why; then its parts come."""
    error = fail("overloaded")
    parts = await streamed(Fallback(Scripted(error), Scripted("hi")), asked())
    assert parts[:2] == [Waiting(0.0, error), TextDelta("hi")]
    assert isinstance(parts[-1], Reply)


@pytest.mark.parametrize("part", [TextDelta("Hel"), ThinkingDelta("hm")])
async def test_a_stream_that_has_told_parts_does_not_fall_back(part: TextDelta | ThinkingDelta):
    """After a part of an answer was told, a failure is the error of the stream."""
    second = Scripted("never")
    model = Fallback(Scripted(after(part, then=fail("cut_off", "broke"))), second)
    told, error = await told_before(model, asked(), ModelError)
    assert (told, str(error), second.requests) == ([part], "broke", ())


async def test_parts_that_are_void_do_not_count():
    """A stream that began again and failed before any new part falls back."""
    again = Waiting(1.0, fail("overloaded"), restarted=True)
    failure = fail("server")
    model = Fallback(Scripted(after(TextDelta("Hel"), again, then=failure)), Scripted("hi"))
    assert (await streamed(model, asked()))[:-1] == [TextDelta("Hel"), again, Waiting(0.0, failure), TextDelta("hi")]


async def test_falling_back_after_parts_can_be_asked_for():
    """With `after_parts`, parts that were told are told to be void."""
    failure = fail("cut_off")
    model = Fallback(Scripted(after(TextDelta("Hel"), then=failure)), Scripted("hi"), after_parts=True)
    assert (await streamed(model, asked()))[:-1] == [
        TextDelta("Hel"),
        Waiting(0.0, failure, restarted=True),
        TextDelta("hi"),
    ]


async def test_without_a_stream_parts_stand_in_nobodys_way():
    """`request` falls back also when a stream inside broke off: nobody has seen its parts."""
    model = Fallback(Scripted(after(TextDelta("Hel"), then=fail("cut_off"))), Scripted("hi"))
    assert (await said(model)).text == "hi"


# ---------------------------------------------------------------------------------------------------------- profile


def test_its_profile_is_what_all_accept():
    """Of each thing the least of what the models accept is accepted."""
    one = Profile(
        window=1000,
        max_output=50,
        strict_tools=True,
        output=True,
        output_with_tools=True,
        media=("image/*", "audio/wav"),
        settings=frozenset({"max_tokens", "seed"}),
        efforts=("low", "high"),
        thinking="budget",
    )
    other = Profile(
        window=None,
        max_output=80,
        parallel_tools=False,
        forced_tools=False,
        output=True,
        media=("image/png", "image/jpeg", "audio/*"),
        settings=frozenset({"max_tokens"}),
        efforts=("high",),
        thinking="adaptive",
    )
    common = Profile(
        window=1000,
        max_output=50,
        parallel_tools=False,
        forced_tools=False,
        output=True,
        media=("audio/wav", "image/png", "image/jpeg"),
        settings=frozenset({"max_tokens"}),
        efforts=("high",),
        thinking="none",
    )
    assert Fallback(Scripted(profile=one), Scripted(profile=other)).profile == common
    assert common_profile([one, one]) == one
    assert not common_profile([one, Profile(tools=False)]).tools


def test_what_cannot_be_is_refused():
    """No model, and kinds that are none, are refused."""
    with pytest.raises(ValueError, match="has no model"):
        Fallback()
    with pytest.raises(ValueError, match="names slow; the kinds of error are rate_limit"):
        Fallback(Scripted(), on=["slow"])  # pyright: ignore[reportArgumentType]
