"""What time it is, for models that cannot know; the clock is given, so that a test may hold it still."""

from __future__ import annotations

import difflib
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from flowagent.errors import ToolError
from flowagent.tools.tool import Tool, tool


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment as it is told in one zone.

    Args:
        iso: date, time and offset, to the second, such as `2026-03-29T14:05:00+02:00`.
        weekday: in English, as models are used to.
        zone: the IANA name of the zone.
        abbreviation: what the zone is called at that moment, such as `CEST`.
    """

    iso: str
    weekday: str
    zone: str
    abbreviation: str


class Clock:
    """A toolkit of one tool, which tells the date and time in any zone.

    Args:
        zone: the zone that is meant when none is asked for, by its IANA name.
        now: gives the present moment, with its zone; by default the system's clock.

    Raises:
        ValueError: there is no such zone.

    Example:
        >>> clock = Clock("Asia/Tokyo", now=lambda: datetime(2026, 12, 31, 15, 0, tzinfo=UTC))
        >>> clock.current_time()
        Moment(iso='2027-01-01T00:00:00+09:00', weekday='Friday', zone='Asia/Tokyo', abbreviation='JST')
    """

    def __init__(self, zone: str = "UTC", *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._zone = zone
        self._now = now
        if _found(zone) is None:
            raise ValueError(_unknown(zone))

    def __repr__(self) -> str:
        return f"Clock({self._zone!r})"

    def current_time(self, zone: str | None = None) -> Moment:
        """Tell the current date, time and day of the week.

        Args:
            zone: an IANA time zone such as `Europe/Berlin`; left out, the user's own.

        Raises:
            ToolError: there is no such zone.
        """
        name = self._zone if zone is None else zone.strip()
        there = _found(name)
        if there is None:
            raise ToolError(_unknown(name))
        now = self._now()
        if now.tzinfo is None:
            raise ValueError("now= gave a moment without a zone: give `datetime.now(UTC)` or the like")
        local = now.astimezone(there)
        return Moment(local.isoformat(timespec="seconds"), f"{local:%A}", name, local.tzname() or "")

    def tools(self) -> tuple[Tool[..., Any], ...]:
        """What a model may call."""
        return (tool(self.current_time, untrusted=False),)


def _found(name: str) -> zoneinfo.ZoneInfo | None:
    try:
        return zoneinfo.ZoneInfo(name)
    # A name may be no key, a path that leads out, a folder of the zone data, or no text that a path can have.
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _unknown(name: str) -> str:
    known = sorted(zoneinfo.available_timezones())
    if not known:
        return f"no time zone `{name}`: this system has no time zones at all; `pip install tzdata` brings them"
    # People name the city: that is where the likeness is looked for, too.
    cities = {zone.rpartition("/")[2].lower(): zone for zone in known}
    close = difflib.get_close_matches(name, known, 3) or [
        cities[city] for city in difflib.get_close_matches(name.strip().replace(" ", "_").lower(), cities, 3)
    ]
    hint = f"; did you mean {' or '.join(f'`{zone}`' for zone in close)}?" if close else ""
    return f"no time zone `{name}`: use an IANA name such as `Europe/Berlin` or `UTC`{hint}"
