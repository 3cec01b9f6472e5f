"""Tools for tests: models that are programs, and the suite that every store must pass."""

from __future__ import annotations

from flowagent.models.scripted import FunctionModel, Scripted, UnexpectedRequest
from flowagent.models.steps import Step, after, call, calls, fail, say, think
from flowagent.testing.conformance import CHECKS, Check, check_store

__all__ = [
    "CHECKS",
    "Check",
    "FunctionModel",
    "Scripted",
    "Step",
    "UnexpectedRequest",
    "after",
    "call",
    "calls",
    "check_store",
    "fail",
    "say",
    "think",
]
