from __future__ import annotations

import dataclasses
from typing import Annotated

from pydantic import BaseModel, Secret, SecretBytes, SecretStr

from flowagent import secret
from flowagent.core.secret import scrubbed
from flowagent.errors import ToolFatal
from flowagent.tools.hiding import masked_error, secrets_of


@dataclasses.dataclass
class Key:
    label: str
    value: SecretBytes


class Account(BaseModel):
    name: str
    pin: Annotated[int, secret]
    keys: list[Key]


def test_the_secrets_in_arguments_are_found_wherever_they_are() -> None:
    arguments = {
        "account": Account(name="ada", pin=98765, keys=[Key("first", SecretBytes(b"\xffbytes"))]),
        "by_name": {"a": SecretStr("in a dict"), "b": "not secret"},
        "numbers": (Secret[dict[str, int]]({"x": 4711}), {SecretStr("in a set")}),
        "plain": "marked as a whole",
        "other": "nobody says that this is secret",
        "none": None,
    }
    assert secrets_of(arguments, ["account", "by_name", "numbers", "plain", "none"]) == {
        "98765",
        "\\xffbytes",
        "in a dict",
        "4711",
        "in a set",
        "marked as a whole",
    }


def test_a_secret_is_masked_in_every_form_in_which_a_text_may_quote_it() -> None:
    text = "p?ss w=rd; cD9zcyB3PXJk; x; p%3Fss%20w%3Drd; other"
    assert scrubbed(text, ["p?ss w=rd", "", "abc"]) == "**********; **********; x; **********; other"


def test_the_longest_secret_is_masked_first() -> None:
    assert scrubbed("token-long and token", ["token", "token-long"]) == "********** and **********"


def test_an_error_is_replaced_only_where_it_quotes_a_secret() -> None:
    clean, fatal, other = ValueError("nothing"), ToolFatal("of hunter22"), KeyError("hunter22")
    assert masked_error(clean, ["hunter22"]) is clean
    masked = [masked_error(error, ["hunter22"]) for error in (fatal, other)]
    assert [repr(error) for error in masked] == [
        "ToolFatal('of **********')",
        "RuntimeError(\"KeyError: '**********'\")",
    ]
