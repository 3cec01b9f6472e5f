"""What a person may say to a call that waits for approval."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, assert_never

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Approve(_Frozen):
    """The call is made.

    Args:
        arguments: what it is made with instead, if that is something else; validated like what a model writes.
    """

    verb: Literal["approve"] = "approve"
    arguments: dict[str, Any] | None = None

    def __init__(self, arguments: dict[str, Any] | None = None, **data: Any) -> None:
        BaseModel.__init__(self, arguments=arguments, **data)


class Deny(_Frozen):
    """The call is not made, and the model is told why."""

    verb: Literal["deny"] = "deny"
    reason: str = ""

    def __init__(self, reason: str = "", **data: Any) -> None:
        BaseModel.__init__(self, reason=reason, **data)


class Answer(_Frozen):
    """The call is not made, and the model is told this as its result."""

    verb: Literal["answer"] = "answer"
    result: Any = None

    def __init__(self, result: Any = None, **data: Any) -> None:
        BaseModel.__init__(self, result=result, **data)


class Abort(_Frozen):
    """The call is not made, and neither is anything after it: the run fails."""

    verb: Literal["abort"] = "abort"
    reason: str = ""

    def __init__(self, reason: str = "", **data: Any) -> None:
        BaseModel.__init__(self, reason=reason, **data)


Verdict: TypeAlias = Annotated[Approve | Deny | Answer | Abort, Field(discriminator="verb")]
"""A decision in full."""

Decision: TypeAlias = Verdict | Literal["approve", "deny", "abort"] | bool
"""What is accepted as a decision: in full, one word, or a plain yes or no."""


def verdict(decision: Decision) -> Approve | Deny | Answer | Abort:
    """A decision in full.

    Example:
        >>> verdict(True), verdict("deny").verb
        (Approve(verb='approve', arguments=None), 'deny')
    """
    match decision:
        case Approve() | Deny() | Answer() | Abort():
            return decision
        case True | "approve":
            return Approve()
        case False | "deny":
            return Deny()
        case "abort":
            return Abort()
        case _:
            assert_never(decision)
