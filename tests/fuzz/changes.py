"""What can happen to the bytes of one value: a changed bit, another digit, JSON of another shape."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

SHAPES: Final = (
    *(b"", b"null", b"{}", b"[]", b"0", b'""', b"true", b"NaN", b"-Infinity", b"1e400", b"[" * 5000, b'{"a":' * 300),
    *(
        b'{"task":1}',
        b'{"task":null,"node":[]}',
        b'{"writes":{"x":["set",[]]}}',
        b"\xff\xfe",
        b"\x80\x04\x95cos\nsystem",
    ),
    *(b'{"a":1,"a":2}', b"9" * 5000, b'"\\ud800"', b'{"py/object":"os.system"}', b"\0" * 64),
)
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**70), 10**400, 0.5, 1e308, "", "x", "START", "END"),
    *("\x00", "os.system", "tests.fuzz.hook", "__class__", "../../x", "%s%n", [], {}, [[]], [None], {"": None}),
    *(["set", []], ["set", [1, 2]], ["delta", [None]], ["replace", ["x"]], [["set", [1]]], "[0]", "loop[99999999]"),
    *({"py/object": "os.system"}, {"__reduce__": ["os.system", ["true"]]}, [[[[[[[[[]]]]]]]]], 10**9, [0] * 50),
)


def _bit(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _bytes(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _digit(chance: random.Random, data: bytes) -> bytes:
    places = [at for at, byte in enumerate(data) if byte in b"0123456789"]
    at = chance.choice(places)
    return data[:at] + str(chance.randrange(10)).encode() + data[at + 1 :]


def _letter(chance: random.Random, data: bytes) -> bytes:
    places = [at for at, byte in enumerate(data) if chr(byte).isalpha()]
    at = chance.choice(places)
    return data[:at] + bytes([chance.choice(b"abcdeXYZ")]) + data[at + 1 :]


def _cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data))]


def _longer(chance: random.Random, data: bytes) -> bytes:
    return data + chance.choice((b" ", b"\0", b"{}", data, b"\n"))


def _shape(chance: random.Random, data: bytes) -> bytes:
    return chance.choice(SHAPES)


def _reshaped(chance: random.Random, data: bytes) -> bytes:
    """The same JSON, with one thing in it put in the place of another."""
    content = json.loads(data)
    places = list(_places(content))
    holder, key = chance.choice(places)
    match chance.randrange(4):
        case 0:
            holder[key] = chance.choice(VALUES)
        case 1:
            del holder[key]
        case 2:
            other, other_key = chance.choice(places)
            holder[key] = json.loads(json.dumps(other[other_key]))
        case _:
            holder[key] = [holder[key]] if chance.random() < 0.5 else {"x": holder[key]}
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(content, dict):
        for key in list(content):
            yield content, key
            yield from _places(content[key])
    elif isinstance(content, list):
        for at in range(len(content)):
            yield content, at
            yield from _places(content[at])


CHANGES: Final[Sequence[Callable[[random.Random, bytes], bytes]]] = (
    *(_bit, _bytes, _digit, _letter, _cut, _longer, _shape, _reshaped),
)
OF_ANY_BYTES: Final[Sequence[Callable[[random.Random, bytes], bytes]]] = (_bit, _bytes, _cut, _longer, _shape)
"""Those that need no JSON: for what is encrypted."""
