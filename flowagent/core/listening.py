"""Who hears what happens in runs: the listeners of a call, and those of all calls that a block of code makes.

Listeners only look on. One that raises harms neither the run nor the other listeners; its error is logged.
"""

from __future__ import annotations

import contextvars
import logging
from asyncio import CancelledError
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

from flowagent.core.events import Event
from flowagent.core.topology import Topology
from flowagent.errors import FlowAgentError

T = TypeVar("T")

_log: Final = logging.getLogger("flowagent")

NOTHING_CARRIED: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that starts a run or goes on with one.

    Args:
        run_id: the run.
        graph: the name of its graph.
        is_agent: whether that is the graph of an agent.
    """

    run_id: str
    graph: str
    is_agent: bool


class Observation(Protocol):
    """What watches one call."""

    @property
    def carried(self) -> Mapping[str, str]:
        """What is kept with the run if the call starts it: `RunStarted` tells it to the calls that go on with it."""
        ...

    def tell(self, event: Event) -> None:
        """Hear an event of the call.

        `TaskStarted` is told in the context variables of the attempt that begins, and what a node, a model or a tool
        tells in those of the one that tells it: what is set there holds for what follows in that attempt.
        """
        ...

    def end(self, error: BaseException | None) -> None:
        """The call is over: whether it returned or raised this, it tells nothing more."""
        ...


@runtime_checkable
class Observer(Protocol):
    """Watches calls from before they begin until they are over, each on its own."""

    def begin(self, call: Call) -> Observation:
        """A call begins; this is run in its context variables, and so is the end of what is returned."""
        ...


Listener: TypeAlias = "Callable[[Event], None] | Observer"
"""What `listeners=` takes: a function that is called with every event, or an `Observer`."""

Hears: TypeAlias = Callable[[Event], None]
"""What a run tells its events to."""

_around: contextvars.ContextVar[tuple[Listener, ...]] = contextvars.ContextVar("flowagent_listeners", default=())


@contextmanager
def listening(*listeners: Listener) -> Generator[None]:
    """Have all runs that are started or resumed in a block heard, with those that their nodes start.

    Args:
        listeners: functions that are called with every event, in the order in which things happen and on the thread
            of the run's event loop, so they should be quick; or observers, such as `Tracing`.

    Raises:
        FlowAgentError: something that cannot listen.

    Example:
        >>> from flowagent import END, START, Graph, State
        >>> class Nothing(State):
        ...     number: int = 0
        >>> g = Graph("idle", Nothing)
        >>> g.chain(START, g.node(lambda state: None, name="wait"), END)
        >>> with listening(lambda event: print(type(event).__name__)):
        ...     run = g.run_sync({})
        RunStarted
        TaskStarted
        TaskDone
        RunEnded
    """
    hold_to_listeners(listeners)
    token = _around.set((*_around.get(), *listeners))
    try:
        yield
    finally:
        _around.reset(token)


def hold_to_listeners(listeners: Sequence[Any]) -> None:
    """Refuse what cannot listen.

    Raises:
        FlowAgentError: one of them is neither a function nor an observer.
    """
    for one in listeners:
        if not (callable(one) or isinstance(one, Observer)):
            raise FlowAgentError(f"{one!r} cannot listen: a listener is called with every event, or is an Observer")


class Heard(NamedTuple):
    """Who hears one call, and what they want kept with the run if it starts one."""

    listeners: tuple[Hears, ...]
    carried: Mapping[str, str]


@contextmanager
def heard(topology: Topology, run_id: str, listeners: Sequence[Listener]) -> Generator[Heard]:
    """Let observers see a call from its beginning to its end.

    Args:
        topology: the graph that it runs.
        run_id: the run.
        listeners: the call's own, beside those of the block that it is made in.
    """
    everyone = list({id(one): one for one in (*_around.get(), *listeners)}.values())
    if not everyone:
        yield Heard((), NOTHING_CARRIED)
        return
    call = Call(run_id=run_id, graph=topology.name, is_agent=topology.is_agent)
    hears: list[Hears] = []
    seen: list[Observation] = []
    for one in everyone:
        if not isinstance(one, Observer):
            hears.append(Guarded(one))
        elif (observation := harmless(one, one.begin, call)) is not None:
            seen.append(observation)
            hears.append(Guarded(observation.tell))
    error: BaseException | None = None
    try:
        yield Heard(tuple(hears), {key: text for one in seen for key, text in one.carried.items()})
    except BaseException as raised:
        error = raised
        raise
    finally:
        for one in reversed(seen):
            harmless(one, one.end, error)


class Guarded:
    """A listener whose errors are logged, each kind of them once, and harm nothing."""

    __slots__ = ("_hears", "_logged")

    def __init__(self, hears: Hears) -> None:
        self._hears = hears
        self._logged: set[type[BaseException]] = set()

    def __call__(self, event: Event) -> None:
        """Tell the listener, whatever it does."""
        try:
            self._hears(event)
        except (Exception, CancelledError) as error:  # noqa: BLE001  # whatever it is, it must not reach the run
            if type(error) not in self._logged:
                self._logged.add(type(error))
                _complain(self._hears, error)


def harmless(who: object, do: Callable[..., T], *arguments: Any) -> T | None:
    """What something of a listener's gives; None if it raises, which is logged."""
    try:
        return do(*arguments)
    except (Exception, CancelledError) as error:  # noqa: BLE001  # as above
        _complain(who, error)
        return None


def _complain(who: object, error: BaseException) -> None:
    _log.warning(
        "a listener failed (%r); the run goes on without it noticing, and so do the other listeners",
        who,
        exc_info=(type(error), error, error.__traceback__),
    )
