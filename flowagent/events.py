"""What a run tells whoever watches it: `async with g.stream(...) as events: async for event in events: ...`."""

from flowagent.core.events import (
    Asked,
    Emitted,
    Event,
    ModelCalled,
    ModelWaits,
    RunEnded,
    RunStarted,
    TaskDone,
    TaskFailed,
    TaskStarted,
    TextDelta,
    ToolEnded,
    ToolStarted,
    Warned,
)

__all__ = [
    "Asked",
    "Emitted",
    "Event",
    "ModelCalled",
    "ModelWaits",
    "RunEnded",
    "RunStarted",
    "TaskDone",
    "TaskFailed",
    "TaskStarted",
    "TextDelta",
    "ToolEnded",
    "ToolStarted",
    "Warned",
]
