"""Tools for tests: models that are programs, and the suite that every store must pass."""

from __future__ import annotations

from flowagent.models.recorded import Recorder
from flowagent.models.recordings import Recording, read_recordings
from flowagent.models.replay import Replay
from flowagent.models.scripted import FunctionModel, Scripted, UnexpectedRequest
from flowagent.models.steps import Step, after, call, calls, fail, say, think
from flowagent.models.trial import TestModel
from flowagent.testing.conformance import CHECKS, Check, check_store

__all__ = [
    "CHECKS",
    "Check",
    "FunctionModel",
    "Recorder",
    "Recording",
    "Replay",
    "Scripted",
    "Step",
    "TestModel",
    "UnexpectedRequest",
    "after",
    "call",
    "calls",
    "check_store",
    "fail",
    "read_recordings",
    "say",
    "think",
]
