"""An agent as a graph: `model` asks, `tools` maps over the calls of one reply, `output` reads the answer.

Each request and each call is a step of that graph: journaled, resumable, drawn and limited like any other. What to do
next is decided in `deciding`; here it is done.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from flowagent.agents import deciding
from flowagent.agents.asking import ask, model_for
from flowagent.agents.deciding import MODEL, OUTPUT, TOOLS, Ask, Move
from flowagent.agents.delegate import call_graph, outcome_of
from flowagent.agents.guards import Blocked, guard_all
from flowagent.agents.hooks import around
from flowagent.agents.output import Accepted, Attempt, OutputPlan, answer_call, feedback
from flowagent.agents.prompt import Prompt, sections
from flowagent.agents.saving import save
from flowagent.agents.state import AgentState, Ending, StopReason, state_for
from flowagent.core.context import Context
from flowagent.core.fields import short
from flowagent.core.graph import Graph
from flowagent.core.nodes import END, START, Goto
from flowagent.core.reducers import Replace
from flowagent.core.signatures import takes_context
from flowagent.errors import AgentStopped, FlowAgentError, OutputError, ToolRetry
from flowagent.models.base import Model, ModelRequest, Reply
from flowagent.models.history import with_own_ids
from flowagent.models.messages import AssistantMessage, ToolCall, user
from flowagent.tools.outcome import ToolOutcome
from flowagent.tools.tool import Tool
from flowagent.tools.toolbox import Loaded
from flowagent.tools.untrusted import untrusted_note

if TYPE_CHECKING:
    from flowagent.agents.agent import Agent

Step: TypeAlias = Callable[[AgentState, Context[Any, AgentState]], Awaitable[Goto]]

GUARD: Final = "guard"
_RAISED: Final[frozenset[StopReason]] = frozenset({"limit", "tool_errors", "empty", "cut_off"})


def graph_of(agent: Agent[Any, Any]) -> Graph[Any, Any]:
    """The graph of an agent."""
    steps = Steps(agent)
    graph: Graph[Any, Any] = Graph(agent.name, state_for(agent.name, agent.output), deps=agent.deps)
    first = MODEL
    if agent.guardrails.before:
        first = GUARD
        graph.node(
            steps.hooked(steps.guard),
            name=GUARD,
            to=[MODEL, END],
            doc="Looks at what is asked before anything is spent.",
        )
    retried: dict[str, Any] = {} if agent.retry is None else {"retry": agent.retry}
    targets = [*([TOOLS] if agent.has_tools else []), OUTPUT, MODEL, END]
    graph.node(steps.hooked(steps.model), name=MODEL, to=targets, shape="model", doc="Asks the model.", **retried)
    graph.node(steps.hooked(steps.output), name=OUTPUT, to=[MODEL, END], shape="output", doc="Reads the answer.")
    graph.edge(START, first)
    if agent.has_tools:
        _add_tools(graph, agent, steps)
    return graph


def _add_tools(graph: Graph[Any, Any], agent: Agent[Any, Any], steps: Steps) -> None:
    """The map over calls: one function, or a graph where some of the tools are agents."""
    options: dict[str, Any] = {"over": "calls", "into": "outcomes", "name": TOOLS, "at_most": agent.parallel_tools}
    if agent.delegates.agents:
        body = call_graph(agent.name, agent.delegates, steps.call)
        graph.map(body, input="call", output=outcome_of, shape="tools", doc="Runs the calls of a reply.", **options)
    else:
        graph.map(steps.call, shape="tools", doc="Runs the calls of a reply.", **options)
    graph.edge(TOOLS, MODEL)


class Steps:
    """The functions behind the nodes of one agent's graph. They keep nothing between calls."""

    def __init__(self, agent: Agent[Any, Any]) -> None:
        self._agent = agent

    def hooked(self, step: Step) -> Step:
        """A node's function with the hooks of nodes around it."""
        hooks = self._agent.hooks

        async def node(state: AgentState, ctx: Context[Any, AgentState]) -> Goto:
            async def go(given: AgentState) -> Goto:
                return await step(given, ctx)

            return await around(hooks, "node", ctx, go)(state)

        return node

    async def guard(self, state: AgentState, ctx: Context[Any, AgentState]) -> Goto:
        """Let the input guardrails look at what is asked."""
        blocked = await guard_all(self._agent.guardrails.before, ctx, state.task)
        return Goto(MODEL, {}) if blocked is None else _blocked(state, blocked)

    async def model(self, state: AgentState, ctx: Context[Any, AgentState]) -> Goto:
        """Ask the model, or go on with calls that had to wait."""
        agent = self._agent
        _refuse_without_deps(agent, ctx)
        loaded = await agent.toolbox.load()
        hold_secrets(loaded, ctx)
        step = deciding.before(agent.rules, state, ctx.spent)
        if isinstance(step, Move):
            return self._gone(step, ctx)
        ctx.reserve(requests=1)
        model = model_for(agent.name, agent.opened, has_tools=agent.needs_calls)
        plan = agent.plan_for(model)
        request = await self._request(state, ctx, loaded, plan, step)
        reply, blocked = await self._asked(state, ctx, model, request)
        if blocked is not None:
            return _blocked(state, blocked)
        message = with_own_ids(reply.message, state.conversation)
        move = deciding.after(agent.rules, state, message, plan, step, ctx.spent)
        if move.to == TOOLS:
            batches = loaded.batches(message.calls)
            move = Move(
                TOOLS, {**move.update, "calls": list(batches[0]), "waiting": [list(one) for one in batches[1:]]}
            )
        return self._gone(move, ctx)

    def _gone(self, move: Move, ctx: Context[Any, Any]) -> Goto:
        """Where a decision leads; at a limit that is an error, it is raised."""
        ending = move.update.get("ending")
        if self._agent.rules.at_limit == "raise" and isinstance(ending, Ending) and ending.reason in _RAISED:
            raise stopped(self._agent.name, ending, ctx.spent)
        return Goto(move.to, move.update)

    async def _request(
        self,
        state: AgentState,
        ctx: Context[Any, AgentState],
        loaded: Loaded,
        plan: OutputPlan,
        step: Ask,
    ) -> ModelRequest:
        agent = self._agent
        tools = () if step.is_last else loaded.specs(ctx)
        answer = () if plan.tool is None else (plan.tool,)
        prompt = await prompt_for(agent, ctx, plan, loaded.tools, is_last=step.is_last)
        return ModelRequest(
            system=sections(prompt, agent.clock()),
            messages=(*state.conversation, *deciding.results_so_far(state)),
            tools=(*tools, *answer),
            output=plan.spec,
            settings=agent.settings,
        )

    async def _asked(
        self, state: AgentState, ctx: Context[Any, AgentState], model: Model, request: ModelRequest
    ) -> tuple[Reply, Blocked | None]:
        """The reply, and what a guardrail that looks on beside the first request has against it."""
        agent = self._agent

        async def go(given: ModelRequest) -> Reply:
            agent.show(given)
            return await ask(model, given, ctx)

        work = around(agent.hooks, "model", ctx, go)(request)
        if not agent.guardrails.beside or state.messages:
            return await work, None
        try:
            async with asyncio.TaskGroup() as group:
                looking = group.create_task(guard_all(agent.guardrails.beside, ctx, state.task))
                asking = group.create_task(_awaited(work))
        except BaseExceptionGroup as several:
            # The first one stopped the other; whoever retries or catches wants that one itself.
            raise several.exceptions[0] from None
        return asking.result(), looking.result()

    async def call(self, call: ToolCall, ctx: Context[Any, Any]) -> ToolOutcome:
        """Run one call of a reply."""
        loaded = await self._agent.toolbox.load()

        async def go(given: ToolCall) -> ToolOutcome:
            return await loaded.run(given, ctx)

        return await around(self._agent.hooks, "tool", ctx, go)(call)

    async def output(self, state: AgentState, ctx: Context[Any, AgentState]) -> Goto:
        """Read the answer; one that does not fit goes back to the model, a bounded number of times."""
        agent = self._agent
        final = next((outcome for outcome in state.outcomes if outcome.final), None)
        message = state.last_reply
        assert message is not None, "what is read was said; this is a bug in flowagent"
        plan = agent.plan_for(model_for(agent.name, agent.opened, has_tools=agent.needs_calls)).asked_as(state.mode)
        read = agent.shape.read(plan, message) if final is None else agent.shape.validated(final.value.encode())
        if isinstance(read, Accepted):
            read = await self._checked(read, message, ctx)
        if isinstance(read, Blocked):
            return _blocked(state, read)
        if isinstance(read, Attempt):
            return self._again(state, message, plan, read, ctx)
        said = (
            deciding.closing(message, plan, deciding.TAKEN, is_error=False) if _ends_with_answer(plan, message) else []
        )
        ending = Ending(
            reason="answer" if final is None else "final_tool",
            because=state.because,
            text=message.text,
            repairs=read.repairs,
            mode=plan.mode,
            is_limited=state.is_last,
            artifact=await save(agent.saving, agent.name, read.value, ctx),
        )
        said = [*deciding.results_so_far(state), *said]
        return Goto(END, {"messages": said, "outcomes": Replace([]), "output": read.value, "ending": ending})

    async def _checked(
        self, read: Accepted, message: AssistantMessage, ctx: Context[Any, AgentState]
    ) -> Accepted | Attempt | Blocked:
        """What the agent's own checks and output guardrails say of an answer that fits."""
        agent = self._agent

        async def go(value: Any) -> Any:
            for check in agent.checks:
                changed = check(value, ctx) if takes_context(check) else check(value)
                changed = await changed if inspect.isawaitable(changed) else changed
                value = value if changed is None else changed
            return value

        try:
            value = await around(agent.hooks, "output", ctx, go)(read.value)
        except ToolRetry as error:
            return Attempt(text=message.text, problems=(str(error),))
        blocked = await guard_all(agent.guardrails.after, ctx, value)
        return blocked or Accepted(value, read.repairs)

    def _again(
        self, state: AgentState, message: AssistantMessage, plan: OutputPlan, attempt: Attempt, ctx: Context[Any, Any]
    ) -> Goto:
        agent = self._agent
        attempts = [*state.attempts, attempt]
        if len(attempts) > agent.output_retries and agent.rules.at_limit != "stop":
            raise OutputError(agent.name, [(one.text, one.problems) for one in attempts], usage=ctx.spent)
        said = deciding.results_so_far(state) or deciding.closing(message, plan, feedback(attempt), is_error=True)
        if state.outcomes:
            said = [*said, user(feedback(attempt))]
        update = {"messages": said, "outcomes": Replace([]), "attempts": [attempt]}
        if len(attempts) <= agent.output_retries:
            return Goto(MODEL, update)
        because = f"none of its {len(attempts)} answers had the shape that was asked for"
        move = deciding.end(
            state, "output", because=because, text=attempt.text, update=update, diagnosis=attempt.problems
        )
        return Goto(END, move.update)


def _refuse_without_deps(agent: Agent[Any, Any], ctx: Context[Any, Any]) -> None:
    """Find before anything is spent that the run lacks what the agent's tools need, not in each of them."""
    wanted: Any = agent.deps
    if ctx.deps is None and isinstance(wanted, type) and wanted not in (object, type(None)):
        raise FlowAgentError(
            f"agent `{agent.name}` needs deps of type `{wanted.__qualname__}`, and the run has none: pass deps= to it"
        )


def hold_secrets(loaded: Loaded, ctx: Context[Any, Any]) -> None:
    """Refuse tools with secret arguments where these could be read: they stand in the conversation, which is stored.

    Raises:
        UnstorableError: the run's store is not encrypted.
    """
    for tool in loaded.tools:
        if tool.body.secrets:
            names = ", ".join(f"`{name}`" for name in sorted(tool.body.secrets))
            ctx.hold_secret(f"the argument {names} of tool `{tool.name}`, which models write into the conversation,")


def stopped(agent: str, ending: Ending, usage: Any) -> AgentStopped:
    """The error of an agent that ended without an answer."""
    return AgentStopped(
        agent, ending.reason, because=ending.because, diagnosis=ending.diagnosis, text=ending.text, usage=usage
    )


async def prompt_for(
    agent: Agent[Any, Any],
    ctx: Context[Any, Any] | None,
    plan: OutputPlan,
    tools: Sequence[Tool[..., Any]],
    *,
    is_last: bool = False,
) -> Prompt:
    """What the system prompt of one request says.

    Args:
        agent: whose.
        ctx: what instructions that are functions are called with; without one they are left out.
        plan: how the answer is asked for.
        tools: what it may call.
        is_last: whether the reply has to be the answer.
    """
    made = [await _made(one, ctx) for one in agent.lines if callable(one)] if ctx is not None else []
    return Prompt(
        description=agent.description,
        role=agent.role,
        instructions=tuple(one for one in agent.lines if isinstance(one, str)),
        guard_leaks=agent.guard_leaks,
        guard_invention=agent.guard_invention,
        canary=agent.canary,
        expected_output=agent.expected_output,
        markdown=agent.markdown,
        examples=tuple(agent.examples),
        data=untrusted_note(tools),
        output=plan.section,
        stop_rule=agent.stop_rule,
        context=tuple(line for lines in made for line in lines),
        date=agent.date,
        is_last=is_last,
    )


async def _made(make: Callable[..., Any], ctx: Context[Any, Any]) -> Sequence[str]:
    lines = make(ctx)
    lines = await lines if inspect.isawaitable(lines) else lines
    said = [] if lines is None else [lines] if isinstance(lines, str) else lines
    if not isinstance(said, (list, tuple)) or not all(isinstance(one, str) for one in cast("Sequence[Any]", said)):
        raise TypeError(f"a function of instructions gave {short(lines)}: it gives text, a list of texts, or None")
    return cast("Sequence[str]", said)


async def _awaited(work: Awaitable[Reply]) -> Reply:
    return await work


def _blocked(state: AgentState, blocked: Blocked) -> Goto:
    move = deciding.end(state, "blocked", because=f"{blocked.guard}: {blocked.reason}")
    return Goto(END, move.update)


def _ends_with_answer(plan: OutputPlan, message: AssistantMessage) -> bool:
    return answer_call(plan, message) is not None
