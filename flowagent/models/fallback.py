"""`Fallback`: when one model fails, the next one is asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final, get_args

from flowagent.core.usage import NO_USAGE, Usage
from flowagent.errors import ModelError, ModelErrorKind
from flowagent.models.base import Model, ModelRequest, Profile, Reply, StreamPart, Waiting
from flowagent.models.metering import spent_on

FALL_BACK_ON: Final = frozenset[ModelErrorKind](get_args(ModelErrorKind)) - {"bad_request", "refused", "forbidden"}
"""The kinds of error after which the next model is asked, unless told otherwise: all that say something of the model or
its service. What is wrong with the request itself, was refused for what it says, or is switched off, stays an error."""


LOST: Final = Usage(requests=1, failed=1, unmeasured=1, unpriced=1)


class Fallback:
    """A model made of several: each is asked when the one before it failed.

    What the failed ones cost is in the usage of the reply, and in that of the error if all fail, whose cause is an
    `ExceptionGroup` of every model's error. A stream tells a `Waiting` of no seconds before the next model is asked.
    What one provider's model thought is no business of the next one's: providers leave it out themselves.

    Args:
        *models: who is asked, in this order.
        on: the kinds of error after which the next model is asked.
        after_parts: whether it is asked also when a stream has told parts of an answer already; `Waiting.restarted`
            tells that they are void.

    Raises:
        ValueError: no model is given, or a kind that is none.

    Example:
        >>> from flowagent.models.scripted import Scripted
        >>> Fallback(Scripted(name="scripted:large"), Scripted(name="scripted:small")).name
        'fallback:scripted:large|scripted:small'
    """

    def __init__(
        self, *models: Model, on: Collection[ModelErrorKind] = FALL_BACK_ON, after_parts: bool = False
    ) -> None:
        unknown = set(on) - set(get_args(ModelErrorKind))
        if not models:
            raise ValueError("Fallback() has no model; give those that are asked, the first one first")
        if unknown:
            known = ", ".join(get_args(ModelErrorKind))
            raise ValueError(f"Fallback(on=...) names {', '.join(sorted(unknown))}; the kinds of error are {known}")
        self._models = models
        self._on = frozenset(on)
        self._after_parts = after_parts

    @property
    def name(self) -> str:
        """All of them, as `fallback:` and their names with a bar between."""
        return f"fallback:{'|'.join(model.name for model in self._models)}"

    @property
    def profile(self) -> Profile:
        """What all of them accept."""
        return common_profile([model.profile for model in self._models])

    async def request(self, request: ModelRequest) -> Reply:
        """Answer.

        Raises:
            ModelError: none of them could.
        """
        failed: list[ModelError] = []
        for model in self._models:
            try:
                return _with_spent(await model.request(request), failed)
            except ModelError as error:
                failed.append(error)
                if error.kind not in self._on:
                    break
        raise self._error(failed) from _cause(failed)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart]:
        """Answer, telling parts as they come; the last one is the `Reply`.

        Raises:
            ModelError: none of them could, or one failed after it had told parts.
        """
        failed: list[ModelError] = []
        for model in self._models:
            told = False
            try:
                async with aclosing(model.stream(request)) as parts:
                    async for part in parts:
                        told = _told(part, told)
                        yield _with_spent(part, failed) if isinstance(part, Reply) else part
                return
            except ModelError as error:
                failed.append(error)
            if failed[-1].kind not in self._on or (told and not self._after_parts):
                break
            if model is not self._models[-1]:
                yield Waiting(0.0, failed[-1], restarted=told)
        raise self._error(failed) from _cause(failed)

    def _error(self, failed: Sequence[ModelError]) -> ModelError:
        """One error for those of all models that were asked."""
        if len(failed) == 1:
            return failed[0]
        last = failed[-1]
        waits = [error.retry_after for error in failed if error.retry_after is not None]
        lines = [f"{len(failed)} of {len(self._models)} models were asked and none answered:"]
        lines += [
            f"  - {error.model or model.name} ({error.kind}): {error}"
            for error, model in zip(failed, self._models, strict=False)
        ]
        return ModelError(
            "\n".join(lines),
            kind=last.kind,
            retryable=any(error.retryable for error in failed),
            model=self.name,
            status=last.status,
            retry_after=min(waits, default=None),
            request_id=last.request_id,
            partial=last.partial,
            usage=_spent(failed) or None,
        )


def common_profile(profiles: Sequence[Profile]) -> Profile:
    """What several models all accept.

    Where it is not known how large the window of one is, the smallest that is known counts.
    """
    first = profiles[0]
    thinking = {profile.thinking for profile in profiles}
    return Profile(
        window=_least(profile.window for profile in profiles),
        max_output=_least(profile.max_output for profile in profiles),
        tools=all(profile.tools for profile in profiles),
        strict_tools=all(profile.strict_tools for profile in profiles),
        parallel_tools=all(profile.parallel_tools for profile in profiles),
        forced_tools=all(profile.forced_tools for profile in profiles),
        output=all(profile.output for profile in profiles),
        output_with_tools=all(profile.output_with_tools for profile in profiles),
        media=_common_media(profiles),
        settings=frozenset[str].intersection(*(profile.settings for profile in profiles)),
        efforts=tuple(effort for effort in first.efforts if all(effort in profile.efforts for profile in profiles)),
        thinking=first.thinking if len(thinking) == 1 else "none",
    )


def _common_media(profiles: Sequence[Profile]) -> tuple[str, ...]:
    """The patterns of each that all others cover, without those that a wider one of them covers."""

    def covered(pattern: str, by: Iterable[str]) -> bool:
        return any(fnmatchcase(pattern, wider) for wider in by)

    named = dict.fromkeys(pattern for profile in profiles for pattern in profile.media)
    common = [pattern for pattern in named if all(covered(pattern, profile.media) for profile in profiles)]
    return tuple(one for one in common if not covered(one, [other for other in common if other != one]))


def _least(numbers: Iterable[int | None]) -> int | None:
    return min((number for number in numbers if number is not None), default=None)


def _told(part: StreamPart, before: bool) -> bool:
    """Whether parts of an answer stand that were told, after this one."""
    match part:
        case Waiting(restarted=restarted):
            return before and not restarted
        case Reply():
            return before
        case _:
            return True


def _spent(failed: Iterable[ModelError]) -> Usage:
    return sum((spent_on(error) for error in failed), start=NO_USAGE)


def _with_spent(reply: Reply, failed: Sequence[ModelError]) -> Reply:
    spent = _spent(failed)
    if not spent:
        return reply
    return replace(reply, message=reply.message.model_copy(update={"usage": spent + reply.usage}))


def _cause(failed: Sequence[ModelError]) -> BaseException | None:
    return failed[0].__cause__ if len(failed) == 1 else ExceptionGroup("every model that was asked failed", failed)
