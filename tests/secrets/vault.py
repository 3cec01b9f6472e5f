"""A graph that has secrets wherever a run can have some; it is imported by tests and by the command line."""

from __future__ import annotations

import base64
import os
from typing import Annotated, Literal

from pydantic import SecretBytes, SecretStr

from flowagent import END, START, Context, Goto, Graph, Retry, State, Update, append, secret

KINDS = (
    *("password", "token", "seal", "part", "result", "memo", "pin", "asked", "child"),  # what is stored
    *("wrong", "rewritten", "mangled"),  # what is refused
    *("plain", "error"),  # what is no secret
)


def canary(kind: str) -> str:
    """A text that is nowhere but where a value of that kind is: no line of this file holds it."""
    assert kind in KINDS, kind
    return f"canary/{KINDS.index(kind):02}-of-{kind}"


def spellings(kind: str) -> list[bytes]:
    """A canary as it would be found in a file: as it is, and in base64 wherever it begins there."""
    plain = canary(kind).encode()
    shifted = [base64.b64encode(bytes(shift) + plain)[4 * (shift > 0) : -4] for shift in range(3)]
    return [plain, *shifted, *(text.translate(bytes.maketrans(b"+/", b"-_")) for text in shifted)]


def input_of() -> dict[str, object]:
    """The input of a run, as JSON has it."""
    return {
        "note": canary("plain"),
        "password": canary("password"),
        "token": canary("token"),
        "seal": base64.urlsafe_b64encode(canary("seal").encode()).decode(),
        "parts": [canary("part"), canary("part")],
    }


class Inner(State):
    """What the nested graph is given."""

    token: Annotated[str, secret]
    made: SecretStr = SecretStr("")


class Vault(State):
    """What a run is about; `note` alone is not secret."""

    note: str = ""
    password: SecretStr
    token: Annotated[str, secret]
    seal: SecretBytes
    parts: list[SecretStr] = []
    results: Annotated[list[str], append, secret] = []
    made: SecretStr = SecretStr("")
    pin: Annotated[str, secret] = ""
    asked: SecretStr = SecretStr("")


inner = Graph("inner", Inner)


@inner.node
def make(state: Inner) -> Update:
    assert state.token == canary("token")
    return {"made": canary("child")}


inner.chain(START, make, END)

g = Graph("vault", Vault)


def code() -> SecretStr:
    return SecretStr(canary("memo"))


@g.node(retry=Retry(attempts=2, backoff=0.0))
async def log_in(state: Vault, ctx: Context) -> Update:
    assert state.password.get_secret_value() == canary("password")
    assert state.seal.get_secret_value() == canary("seal").encode()
    assert (await ctx.step("code", code)).get_secret_value() == canary("memo")
    if os.environ.get("VAULT") == "wrong type":
        return {"token": {canary("wrong"): 1}, "password": [canary("mangled")]}
    if os.environ.get("VAULT") == "raises":
        raise ValueError(canary("error"), state)
    return {"token": canary("token"), "password": canary("password")}


@g.map(over="parts", into="results", at_most=1)
def spread(part: SecretStr) -> str:
    assert part.get_secret_value() == canary("part")
    return canary("result")


g.gate("pin", question="Pin for {note}, {password}, {token[0]}, {made}?", into="pin", schema=str)


@g.node(name="ask")
async def ask_for_more(state: Vault, ctx: Context) -> Goto[Literal["END"]]:
    assert (state.pin, state.made.get_secret_value()) == (canary("pin"), canary("child"))
    assert state.results == [canary("result")] * 2
    answer: SecretStr = await ctx.ask("more", "What else?", SecretStr)
    assert answer.get_secret_value() == canary("asked")
    return Goto("END", {"asked": answer})


nested = g.node(inner, name="nested")
g.chain(START, log_in, spread, "nested", "pin", ask_for_more)
