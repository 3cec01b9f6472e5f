"""`choose`: a router that asks a model which way to go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from pydantic import BaseModel

from flowagent.agents.asking import ask, model_for
from flowagent.agents.output import Accepted, OutputPlan, Shape, WantedMode, answer_call, feedback
from flowagent.agents.template import Template
from flowagent.core.context import Context
from flowagent.errors import GraphError, RoutingError
from flowagent.models.base import Model, ModelRequest, Section, Settings
from flowagent.models.messages import AssistantMessage, Message, Text, ToolMessage, ToolResult, user
from flowagent.models.opening import open_model

_TASK: Final = "Choose exactly one of these ways on. Answer with its name and nothing else."


@dataclass(frozen=True, eq=False)
class ModelRouter:
    """A router that asks a model; made by `choose`, given to `g.router`."""

    model: str | Model
    prompt: str
    choices: Mapping[str, str]
    otherwise: str | None
    name: str
    instructions: str
    settings: Settings
    output_mode: WantedMode
    retries: int

    @property
    def __name__(self) -> str:
        """What the router's node is called unless it is given a name."""
        return self.name

    @property
    def targets(self) -> tuple[str, ...]:
        """Where it may lead: its choices, and where what is none of them goes."""
        extra = () if self.otherwise is None or self.otherwise in self.choices else (self.otherwise,)
        return (*self.choices, *extra)

    def faults_for(self, state: type[BaseModel]) -> list[str]:
        """What is wrong with its prompt for a graph of this state."""
        return Template(self.prompt).faults(state)

    @cached_property
    def _opened(self) -> Model:
        return open_model(self.model)

    @cached_property
    def _shape(self) -> Shape:
        return Shape(Literal[tuple(self.choices)])

    async def __call__(self, state: BaseModel, ctx: Context[Any, Any]) -> str:
        """The way that the model chooses.

        Raises:
            RoutingError: it chose none, and there is no `otherwise`.
            ModelError: the model did not answer.
        """
        model = model_for(self.name, self._opened, has_tools=False)
        plan = self._shape.plan(model.profile, model.name.partition(":")[0], mode=self.output_mode, has_tools=False)
        said: list[Message] = [user(Template(self.prompt).filled(state))]
        for _ in range(self.retries + 1):
            ctx.reserve(requests=1)
            reply = await ask(model, self._request(plan, said), ctx)
            if reply.message.finish in ("refused", "filtered"):
                break
            read = self._shape.read(plan, reply.message)
            if isinstance(read, Accepted):
                return str(read.value)
            if (said_alone := reply.message.text.strip().strip("`\"'.")) in self.choices:
                return said_alone  # as it was asked to, whatever shape was wanted
            said += [reply.message, _answered(plan, reply.message, feedback(read))]
        if self.otherwise is None:
            raise RoutingError(
                f"the model chose none of {', '.join(f'`{name}`' for name in self.choices)}: say where to go then with "
                "choose(..., otherwise='node')"
            )
        return self.otherwise

    def _request(self, plan: OutputPlan, said: list[Message]) -> ModelRequest:
        ways = "\n".join(f"- {name}: {what}" if what else f"- {name}" for name, what in self.choices.items())
        sections = {"instructions": self.instructions, "choices": f"{_TASK}\n{ways}", "output": plan.section}
        return ModelRequest(
            system=tuple(Section(name=name, text=text) for name, text in sections.items() if text),
            messages=tuple(said),
            tools=() if plan.tool is None else (plan.tool,),
            output=plan.spec,
            settings=self.settings,
        )


def choose(
    model: str | Model,
    *,
    prompt: str,
    choices: Mapping[str, str] | list[str] | tuple[str, ...],
    otherwise: str | None = None,
    name: str = "choose",
    instructions: str = "",
    settings: Settings | None = None,
    output_mode: WantedMode = "auto",
    retries: int = 1,
) -> ModelRouter:
    """A router by model: `g.router(choose("openai:gpt-5.5", prompt="Which desk? {text}", choices={...}))`.

    The model's answer is held to the names of the choices; it is asked and counted like any other, and its choice is
    recorded, so that a resumed run goes the same way without asking again.

    Args:
        model: `provider:model` or a model object.
        prompt: what is asked, with `{field}`s of the state.
        choices: the nodes to choose from, with what each is for.
        otherwise: where to go if the model refuses or names none of them; without it that is a `RoutingError`.
        name: the node's name.
        instructions: more for the system prompt.
        settings: how the model is asked to work.
        output_mode: how the answer is held to the choices.
        retries: how often an answer that is none of them is sent back.

    Raises:
        GraphError: there is nothing to choose from.

    Example:
        >>> from flowagent.testing import Scripted, say
        >>> desk = choose(Scripted(say("billing")), prompt="Which desk? {text}", choices={"billing": "", "tech": ""})
        >>> desk.targets
        ('billing', 'tech')
    """
    named = dict(choices) if isinstance(choices, Mapping) else dict.fromkeys(choices, "")
    if not named:
        raise GraphError(name, ["choose() has nothing to choose from: give choices={'node': 'what it is for'}"])
    return ModelRouter(
        model=model,
        prompt=prompt,
        choices=named,
        otherwise=otherwise,
        name=name,
        instructions=instructions,
        settings=settings or {},
        output_mode=output_mode,
        retries=retries,
    )


def _answered(plan: OutputPlan, message: AssistantMessage, text: str) -> Message:
    call = answer_call(plan, message)
    if call is None:
        return user(text)
    results = tuple(
        ToolResult(id=one.id, name=one.name, content=(Text(text=text),), is_error=True) for one in message.calls
    )
    return ToolMessage(results=results)
