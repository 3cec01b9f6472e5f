"""Looks over the texts of a prompt for what a model would stumble on."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches

from flowagent.agents.template import Template

_QUOTED = re.compile(r"`([a-z][a-z0-9]*(?:_[a-z0-9]+)+)(?:\(\))?`|\b([a-z][a-z0-9]*(?:_[a-z0-9]+)+)\(")


def lint_prompt(texts: Mapping[str, str], tools: Collection[str]) -> list[str]:
    """What is odd about a prompt: tools that it names and that there are not, and placeholders that nobody fills.

    Args:
        texts: the parts of the prompt, by name.
        tools: the names of the tools that there are.

    Returns:
        A line for each.

    Example:
        >>> lint_prompt({"instructions": "Use `search_web`, then write to {file}."}, ["search_files"])
        ['instructions: names the tool `search_web`, which there is not; did you mean `search_files`?', \
'instructions: the placeholder `{file}` is filled in by nobody']
    """
    return [f"{name}: {problem}" for name, text in texts.items() for problem in _problems(text, tools)]


def _problems(text: str, tools: Collection[str]) -> Iterator[str]:
    named = dict.fromkeys(found[1] or found[2] for found in _QUOTED.finditer(text))
    for name in named:
        if name not in tools:
            near = get_close_matches(name, tools, n=1)
            meant = f"; did you mean `{near[0]}`?" if near else ""
            yield f"names the tool `{name}`, which there is not{meant}"
    for name in Template(text).names:
        yield f"the placeholder `{{{name}}}` is filled in by nobody"
