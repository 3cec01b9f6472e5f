"""What a request asks for against what a model accepts: checked before anything is sent, all faults at once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from flowagent.errors import ModelError
from flowagent.models.base import Effort, ModelRequest, Only, Profile, Settings
from flowagent.models.media import check_media


def accepted(request: ModelRequest, profile: Profile, model: str, *, drop: bool) -> ModelRequest:
    """The request without what the model would refuse.

    Args:
        request: what is asked.
        profile: what the model accepts.
        model: who is asked, for errors.
        drop: whether settings that it does not take are left out with a warning, instead of an error.

    Raises:
        ModelError: it asks for something that the model's profile refuses (`unsupported`).
    """
    check_media(request, profile, model)
    faults = list(_ability_faults(request, profile))
    refused = dict(_refused(request.settings, profile))
    if refused and drop:
        for reason in refused.values():
            warnings.warn(f"{model}: {reason}; it is left out", UserWarning, stacklevel=2)
    else:
        faults += refused.values()
    if faults:
        raise _unsupported(model, faults)
    kept = {name: value for name, value in request.settings.items() if name not in refused}
    if not profile.parallel_tools:
        kept.pop("parallel_tool_calls", None)  # False is what it does anyway, and it does not know the word
    return request.model_copy(update={"settings": kept})


def _unsupported(model: str, faults: list[str]) -> ModelError:
    lines = "\n".join(f"  - {fault}" for fault in faults)
    remedy = "Leave that out, ask another model, or pass profile= if you know that this one accepts it"
    return ModelError(f"{model} was not asked:\n{lines}\n{remedy}.", kind="unsupported", model=model)


def _ability_faults(request: ModelRequest, profile: Profile) -> Iterator[str]:
    forced = request.tool_choice == "required" or isinstance(request.tool_choice, Only)
    if request.tools and not profile.tools:
        yield "it takes no tools"
    if forced and not request.tools:
        yield f"tool_choice={request.tool_choice!r} without any tool"
    if forced and request.tools and not profile.forced_tools:
        yield f"tool_choice={request.tool_choice!r}: it cannot be made to call a tool"
    if isinstance(request.tool_choice, Only) and request.tool_choice.tool not in [tool.name for tool in request.tools]:
        yield f"tool_choice names `{request.tool_choice.tool}`, which is none of the request's tools"
    if request.output is not None and not profile.output:
        yield "output: it cannot be held to a JSON schema"
    elif request.output is not None and request.tools and not profile.output_with_tools:
        yield "output: it cannot be held to a JSON schema while it has tools"


def _refused(settings: Settings, profile: Profile) -> Iterator[tuple[str, str]]:
    """Each setting that the model does not take, with why."""
    given: Mapping[str, Any] = {**settings}
    for name, value in given.items():
        if name not in profile.settings:
            yield name, f"settings[{name!r}] is not accepted by this model"
        elif name == "parallel_tool_calls" and value and not profile.parallel_tools:
            yield name, f"settings[{name!r}]: one reply of this model holds one call"
        elif name == "effort" and value not in profile.efforts:
            known = ", ".join(repr(effort) for effort in get_args(Effort) if effort in profile.efforts)
            yield name, f"settings['effort'] = {value!r} is not accepted by this model, only {known}"
        elif name == "thinking" and "thinking" in settings:
            reason = _thinking_fault(settings["thinking"], profile)
            if reason:
                yield name, reason


def _thinking_fault(value: bool | int, profile: Profile) -> str:
    wanted = f"settings['thinking'] = {value!r}"
    if profile.thinking == "none":
        return f"{wanted}: this model does not think" if value is not False else ""
    if value is False and profile.thinking == "always":
        return f"{wanted}: this model always thinks; a low `effort` makes it think less"
    if not isinstance(value, bool) and profile.thinking != "budget":
        return f"{wanted}: this model takes no budget for thinking; use `effort`"
    return ""
