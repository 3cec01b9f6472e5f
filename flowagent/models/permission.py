"""Whether real requests may be made at all: one environment variable switches them off, for tests and dry runs.

`FLOWAGENT_NO_REQUESTS` has these values:

- not set, empty or `0`: all requests may be made;
- `remote`: only those to this machine may be made (`localhost`, `127.0.0.0/8`, `::1`);
- anything else, such as `1`: none may be made.
"""

from __future__ import annotations

import ipaddress
import os
from typing import Final
from urllib.parse import urlsplit

from flowagent.errors import ModelError

VARIABLE: Final = "FLOWAGENT_NO_REQUESTS"


def check_allowed(model: str, base_url: str) -> None:
    """Refuse a request that the environment forbids.

    Args:
        model: who would be asked, for the error.
        base_url: where the request would go.

    Raises:
        ModelError: real requests are switched off (`forbidden`).
    """
    value = os.environ.get(VARIABLE, "").strip()
    if value in ("", "0") or (value == "remote" and is_loopback(base_url)):
        return
    where = "to other machines " if value == "remote" else ""
    raise ModelError(
        f"{model} was not asked: {VARIABLE}={value} forbids real requests {where}in this process. "
        "Use a `Scripted` or `Replay` model here, or unset the variable.",
        kind="forbidden",
        model=model,
    )


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine by its very text; names are not looked up."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
