"""What runs do, for the tools that watch over services: OpenTelemetry traces and metrics, and an audit log.

Nothing here is loaded by `import flowagent`, nothing is sent anywhere by itself, and what is said to models and tools
stands in traces only if that is asked for.
"""

from flowagent.core.listening import Call, Listener, Observation, Observer, listening
from flowagent.tracing.audit import Audit
from flowagent.tracing.entries import (
    AuditEntry,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    ModelWaited,
    ToolCalled,
    ToolReturned,
    read_audit,
)
from flowagent.tracing.spans import Tracing

__all__ = [
    "Audit",
    "AuditEntry",
    "Call",
    "Listener",
    "ModelFailed",
    "ModelReplied",
    "ModelRequested",
    "ModelWaited",
    "Observation",
    "Observer",
    "ToolCalled",
    "ToolReturned",
    "Tracing",
    "listening",
    "read_audit",
]
