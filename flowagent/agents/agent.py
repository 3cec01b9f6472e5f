"""`Agent`: an immutable definition that builds a graph, and the verbs that run it by itself."""

from __future__ import annotations

import importlib
import types
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, cast

from typing_extensions import TypeVar, Unpack

from flowagent.agents.calling import running_for
from flowagent.agents.checking import faults_of
from flowagent.agents.deciding import AtLimit, Rules
from flowagent.agents.delegate import AgentTool, Delegates, delegates_in
from flowagent.agents.embedding import as_map, as_node
from flowagent.agents.guards import Guard, Guards, sorted_guards
from flowagent.agents.hooks import Hooks, around
from flowagent.agents.linting import lint_prompt
from flowagent.agents.loop import graph_of, prompt_for
from flowagent.agents.output import TOOL_NAME, OutputPlan, Shape, WantedMode
from flowagent.agents.prompt import DatePrecision, Example, sections
from flowagent.agents.result import AgentResult, AgentWatch, by_question, raise_cause
from flowagent.agents.saving import SaveTo, as_saving
from flowagent.core.context import Context
from flowagent.core.graph import Graph, RunOptions
from flowagent.core.loops import run_blocking
from flowagent.core.policies import Limits, Retry
from flowagent.core.run import Run
from flowagent.errors import GraphError, RunFailed
from flowagent.models.base import Model, ModelRequest, Section, Settings
from flowagent.models.messages import Media, Message, Text, UserMessage, user
from flowagent.models.opening import open_model
from flowagent.models.remote import RemoteModel
from flowagent.tools.names import wire_name
from flowagent.tools.registry import Registry
from flowagent.tools.toolbox import Toolbox, ToolSource

if TYPE_CHECKING:
    from flowagent.core.bodies import ChildGraph
    from flowagent.core.definition import Definition

OutputT = TypeVar("OutputT", default=str)
DepsT = TypeVar("DepsT", default=Any)

Instruction: TypeAlias = "str | Callable[[Context[Any, Any]], Any]"
Prompt: TypeAlias = str | UserMessage | Text | Media | Sequence[str | Text | Media]
"""What an agent may be asked with."""


_TEXT: Any = str
_LIMITS: Final = Limits(requests=25)
_ONE_OF: Final = {
    "anthropic": "anthropic:claude-haiku-4-5",
    "openai": "openai:gpt-5.5",
    "openai-chat": "openai-chat:gpt-5.5",
}
"""A model that stands for its provider, where only the provider's way of writing is asked for."""


@dataclass(frozen=True, eq=False, repr=False)
class Agent(Generic[OutputT, DepsT]):
    """A model with instructions and tools, which goes on until it has an answer.

    Making one does no I/O, needs no key and imports no provider's package. It is immutable and holds nothing of any
    run, so one agent serves any number of runs at once.

    Args:
        model: `provider:model`, such as `anthropic:claude-haiku-4-5`, or a model object.
        name: what it is called in graphs, pictures, stores and messages.
        output: the type of its answer: `str`, or any type that pydantic knows; `Article | str` is either.
        deps: the type of what its tools get as `ctx.deps`.
        description: what it is for; also told to agents that have it as a tool.
        role: who it is to be.
        instructions: a text, several (they become a list), or functions of the context that make some; what functions
            make stands after the static part of the prompt.
        expected_output: what a good answer is like.
        markdown: whether it answers in Markdown.
        guard_leaks: asks it not to reveal or change its instructions. A request, no defence.
        guard_invention: asks it to say so if it does not know. A request, no defence.
        canary: a text that stands in the prompt and must not stand in an answer, which is blocked if it does.
        examples: questions with the answers that are wanted.
        stop_rule: when to stop and hand back.
        date: tells it the date, to the `day`, `minute` or `second`, at the end of the prompt.
        tools: functions, methods, tools, toolkits, toolsets, names in a registry, and agents.
        registry: where tools that are given by name are looked up.
        settings: how the model is asked to work; only what is set is sent.
        limits: what it may spend in requests, tokens, tool calls and cost, the agents that it calls included.
        at_limit: what happens at a limit: `answer` (a last request without tools, for an answer from what there is),
            `stop` (the run ends without an answer, and says why; also where no answer has the asked shape) or `raise`.
            An agent that is a tool of another never raises: whoever called it is told.
        output_mode: how the answer's type is asked for; `auto` takes the strongest way that loses nothing.
        output_retries: how often an answer that does not fit goes back to the model.
        checks: functions of the answer (and the context, if wanted) that may change it, or raise `ToolRetry` to send
            it back.
        guards: guardrails on input, output and calls of tools.
        hooks: code around what it does.
        parallel_tools: how many calls of one reply run at a time.
        tool_errors: how many calls in a row may fail.
        max_result_tokens: how long the result of a tool may be, where the tool says nothing.
        retry: how often a failed request is made again after the model's own retries.
        save_to: a file for the answer.
        debug: whether each request is printed as it is sent; or a function that gets it.
        clock: the time of day, for the date.

    Raises:
        GraphError: something about it is wrong; all that is.

    Example:
        >>> from flowagent.testing import Scripted, call, say
        >>> def add(a: int, b: int) -> int:
        ...     '''Add two whole numbers.'''
        ...     return a + b
        >>> agent = Agent(Scripted(call("add", a=19, b=23), say("42")), name="sums", tools=[add])
        >>> agent.run_sync("What is 19 + 23?").output
        '42'
    """

    model: str | Model
    _: KW_ONLY
    name: str = "agent"
    output: type[OutputT] | types.UnionType = _TEXT
    deps: type[DepsT] | None = None
    description: str = ""
    role: str = ""
    instructions: Instruction | Sequence[Instruction] = ()
    expected_output: str = ""
    markdown: bool = False
    guard_leaks: bool = False
    guard_invention: bool = False
    canary: str = ""
    examples: Sequence[Example] = ()
    stop_rule: str = ""
    date: DatePrecision | None = None
    tools: Sequence[ToolSource | AgentTool | Agent[Any, Any]] = ()
    registry: Registry | None = None
    settings: Settings = field(default_factory=Settings)
    limits: Limits = _LIMITS
    at_limit: AtLimit = "raise"
    output_mode: WantedMode = "auto"
    output_retries: int = 2
    checks: Sequence[Callable[..., Any]] = ()
    guards: Sequence[Guard] = ()
    hooks: Sequence[Hooks] = ()
    parallel_tools: int | None = 8
    tool_errors: int = 6
    max_result_tokens: int | None = 8_000
    retry: Retry | None = None
    save_to: SaveTo | str | None = None
    debug: bool | Callable[[ModelRequest], None] = False
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        if faults := faults_of(self):
            raise GraphError(self.name, faults)

    def __repr__(self) -> str:
        return f"Agent({self.opened.name!r}, name={self.name!r})"

    def replace(self, **changes: Any) -> Agent[OutputT, DepsT]:
        """A copy with some things changed.

        Raises:
            TypeError: a name that agents do not have.
            GraphError: the changed agent is wrong.
        """
        return replace(self, **changes)

    # -- what it is made of ------------------------------------------------------------------------------------------

    @cached_property
    def opened(self) -> Model:
        """Its model; one object for all runs, so that they share its connections."""
        return open_model(self.model)

    @cached_property
    def lines(self) -> tuple[Instruction, ...]:
        """Its instructions, one after another."""
        given = self.instructions
        return (given,) if isinstance(given, str) or callable(given) else tuple(given)

    @property
    def texts(self) -> dict[str, str]:
        """What of its prompt is fixed text, by the name of its section."""
        fixed = [line for line in self.lines if isinstance(line, str)]
        return {
            "description": self.description,
            "role": self.role,
            "instructions": "\n".join(fixed),
            "expected_output": self.expected_output,
            "stop_rule": self.stop_rule,
        }

    @cached_property
    def shape(self) -> Shape:
        """The shape of its answer."""
        return Shape(self.output)

    @cached_property
    def delegates(self) -> Delegates:
        """The agents among its tools."""
        return delegates_in(self.name, [_as_tool(one) for one in self.tools])

    @cached_property
    def toolbox(self) -> Toolbox:
        """Its tools, resolved."""
        made = [_as_tool(one) for one in self.tools]
        plain = [one.tool if isinstance(one, AgentTool) else one for one in made]
        running = running_for(self.hooks, self.guardrails, self.max_result_tokens)
        return Toolbox(plain, registry=self.registry, reserved=[TOOL_NAME], running=running)

    @property
    def has_tools(self) -> bool:
        """Whether there is anything that it may call."""
        return bool(self.tools)

    @property
    def needs_calls(self) -> bool:
        """Whether its model must be able to call something: a tool, or the one whose arguments are the answer."""
        return self.has_tools or (self.output_mode == "tool" and not self.shape.is_text)

    @cached_property
    def guardrails(self) -> Guards:
        """Its guardrails, by where they stand."""
        return sorted_guards(self.guards, self.canary)

    @cached_property
    def rules(self) -> Rules:
        """How far it may go."""
        return Rules(limits=self.limits, at_limit=self.at_limit, tool_errors=self.tool_errors, has_tools=self.has_tools)

    @property
    def saving(self) -> SaveTo | None:
        """Where its answer is saved."""
        return as_saving(self.save_to)

    @cached_property
    def graph(self) -> Graph[Any, DepsT]:
        """The graph that it is: `model`, `tools` and `output`."""
        return cast("Graph[Any, DepsT]", graph_of(self))

    def plan_for(self, model: Model) -> OutputPlan:
        """How a model is asked for the answer."""
        return self.shape.plan(
            model.profile, model.name.partition(":")[0], mode=self.output_mode, has_tools=self.has_tools
        )

    # -- what a model is told ----------------------------------------------------------------------------------------

    def prompt_sections(self, model: str | Model | None = None) -> tuple[Section, ...]:
        """The system prompt in its named sections, as far as it does not depend on a run.

        Args:
            model: who is to be told; by default its own model.
        """
        plan = self.plan_for(self.opened if model is None else open_model(model))
        return sections(run_blocking(prompt_for(self, None, plan, self.toolbox.tools)), self.clock())

    def tool_schemas(self, model: str | Model | None = None) -> list[dict[str, Any]]:
        """The tools as a model is sent them: what stands in the request's `tools`.

        Args:
            model: `provider:model`, a provider alone, or a model object; by default its own model.
        """
        asked = (
            self.opened if model is None else open_model(_ONE_OF.get(model, model) if isinstance(model, str) else model)
        )
        loaded = run_blocking(self.toolbox.load())
        answer = self.plan_for(asked).tool
        specs = (*loaded.specs(None), *([] if answer is None else [answer]))
        if not isinstance(asked, RemoteModel):
            return [spec.model_dump(exclude_defaults=True) for spec in specs]
        return list(asked.written(ModelRequest(messages=(user("?"),), tools=specs)).get("tools", []))

    def show(self, request: ModelRequest) -> None:
        """Show a request as it is sent, if `debug` says so."""
        if callable(self.debug):
            self.debug(request)
        elif self.debug:
            importlib.import_module("flowagent.agents.printing").print_request(self.name, request)

    def lint(self) -> list[str]:
        """What is allowed, and yet likely to make it do the wrong thing: of its tools and of its prompt."""
        names = {wire_name(one.name) for one in self.toolbox.tools}
        return [*self.toolbox.lint(), *([] if self.toolbox.toolsets else lint_prompt(self.texts, names))]

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(
        self,
        prompt: Prompt,
        *,
        history: Sequence[Message] = (),
        run_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentResult[OutputT]:
        """Ask it.

        Args:
            prompt: what to ask: text, parts, or a message.
            history: what was said before, such as `result.messages` of an earlier run.
            run_id: the run's name in the store; made up by default. The same call with a known id goes on with it.
            options: see `RunOptions`; tools that ask for approval need a `store`.

        Returns:
            The result; `pending` tells what waits for approval.

        Raises:
            AgentStopped: it ended at a limit and `at_limit` is `raise`.
            OutputError: no answer had the asked shape.
            ModelError: the model did not answer.
            RunFailed: something else in it failed, or several things.
        """

        async def go(task: UserMessage) -> AgentResult[OutputT]:
            state = {"task": task, "history": list(history)}
            return await self._result(self.graph.run(state, run_id=run_id, **options))

        return await around(self.hooks, "run", None, go)(user(prompt))

    def run_sync(
        self,
        prompt: Prompt,
        *,
        history: Sequence[Message] = (),
        run_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentResult[OutputT]:
        """`run` for scripts, threads and notebooks."""
        return run_blocking(self.run(prompt, history=history, run_id=run_id, **options))

    async def resume(
        self,
        run: str | AgentResult[OutputT] | Run[Any],
        decisions: Mapping[str, Any] | None = None,
        *,
        accept_changes: bool = False,
        **options: Unpack[RunOptions],
    ) -> AgentResult[OutputT]:
        """Go on with a run: with decisions about calls that wait for approval, or after it failed or was interrupted.

        Args:
            run: its id, its result or its `Run`.
            decisions: by call id (or question id): `Approve()`, `Deny("why")`, `Answer(result)` or `Abort()`.
            accept_changes: go on although the agent has changed in what its graph is made of.
            options: see `RunOptions`.

        Returns:
            The result.

        Raises:
            AnswerError: a decision about no open call, or one that does not fit; nothing was changed.
            GraphChanged: its graph is another one now, as that of an agent whose first tool came or last one went.
            RunNotFound: there is no such run.
        """
        given = run.run if isinstance(run, AgentResult) else run
        answers = await self._answers(given, decisions or {}, options)
        work = self.graph.resume(given, answers=answers, accept_changes=accept_changes, **options)
        return await self._result(work)

    def resume_sync(
        self,
        run: str | AgentResult[OutputT] | Run[Any],
        decisions: Mapping[str, Any] | None = None,
        *,
        accept_changes: bool = False,
        **options: Unpack[RunOptions],
    ) -> AgentResult[OutputT]:
        """`resume` for scripts, threads and notebooks."""
        return run_blocking(self.resume(run, decisions, accept_changes=accept_changes, **options))

    async def load(self, run_id: str, *, store: Any = None) -> AgentResult[OutputT]:
        """Read a stored run; nothing is executed or changed."""
        return AgentResult(self, await self.graph.load(run_id, store=store))

    def stream(
        self,
        prompt: Prompt,
        *,
        history: Sequence[Message] = (),
        run_id: str | None = None,
        **options: Unpack[RunOptions],
    ) -> AbstractAsyncContextManager[AgentWatch[OutputT]]:
        """`run`, watched: `async with agent.stream(...) as events: async for event in events: ...`.

        `events.result` is the result when they are over. Leaving early stops the run, resumable.
        """
        return self._watched(
            self.graph.stream({"task": user(prompt), "history": list(history)}, run_id=run_id, **options)
        )

    # -- in other graphs -----------------------------------------------------------------------------------------------

    def as_node(self, graph: Definition, given: dict[str, Any]) -> ChildGraph:
        """What stands for it in a graph: `g.node(agent, prompt="About {topic}", into="draft")`; see `Embedding`."""
        return as_node(self, graph, given)

    def as_map(self, graph: Definition, over: str, into: str, given: dict[str, Any]) -> ChildGraph:
        """What stands for it in a map: `g.map(agent, over="urls", into="notes", prompt="Summarise {item}")`."""
        return as_map(self, graph, over, into, given)

    def as_tool(self, **options: Any) -> AgentTool:
        """It as a tool of another agent; for the options see `AgentTool`. In `tools=` an agent alone will do."""
        return AgentTool(agent=self, **options)

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _result(self, work: Any) -> AgentResult[OutputT]:
        try:
            return AgentResult(self, await work)
        except RunFailed as failed:
            raise_cause(failed)
            raise

    async def _answers(
        self, run: str | Run[Any], decisions: Mapping[str, Any], options: RunOptions
    ) -> Mapping[str, Any]:
        if not decisions:
            return {}
        stored = await self.graph.load(run, store=options.get("store"))
        return by_question(stored, decisions)

    @asynccontextmanager
    async def _watched(self, watching: Any) -> AsyncGenerator[AgentWatch[OutputT]]:
        try:
            async with watching as watch:
                yield AgentWatch(self, watch)
        except RunFailed as failed:
            raise_cause(failed)
            raise


def _as_tool(one: Any) -> Any:
    return one.as_tool() if isinstance(one, Agent) else one
