"""The clock tells the time that it is given, in any zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from flowagent.errors import ToolError
from flowagent.tools.builtin.clock import Clock, Moment

SUMMER = datetime(2026, 7, 1, 22, 30, 15, 999, tzinfo=UTC)


def test_the_time_is_told_in_the_clock_s_own_zone_and_in_any_other() -> None:
    clock = Clock("Europe/Berlin", now=lambda: SUMMER)
    assert clock.current_time() == Moment("2026-07-02T00:30:15+02:00", "Thursday", "Europe/Berlin", "CEST")
    assert clock.current_time("UTC") == Moment("2026-07-01T22:30:15+00:00", "Wednesday", "UTC", "UTC")
    assert clock.current_time(" Asia/Kolkata ").iso == "2026-07-02T04:00:15+05:30"


def test_without_a_clock_of_its_own_it_is_the_systems() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    told = datetime.fromisoformat(Clock().current_time().iso)
    assert before <= told <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("zone", "hint"),
    [
        ("Europe/Berln", "did you mean `Europe/Berlin`"),
        ("new york", "did you mean `America/New_York`"),
        ("../../etc/passwd", "use an IANA name"),
        ("/etc/localtime", "use an IANA name"),
        ("", "use an IANA name"),
        ("Europe", "use an IANA name"),
        ("a\x00b", "use an IANA name"),
        ("x" * 5000, "use an IANA name"),
    ],
)
def test_a_zone_that_is_none_is_told_with_what_may_be_meant(zone: str, hint: str) -> None:
    with pytest.raises(ToolError, match=re.escape(f"no time zone `{zone}`")) as told:
        Clock().current_time(zone)
    assert hint in str(told.value)


def test_a_clock_of_no_zone_is_refused_when_it_is_made() -> None:
    with pytest.raises(ValueError, match="did you mean `Europe/Paris`"):
        Clock("Europe/Pariss")


def test_a_system_without_time_zones_is_told_of_the_package_that_brings_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert repr(Clock("Asia/Tokyo")) == "Clock('Asia/Tokyo')"
    monkeypatch.setattr("zoneinfo.available_timezones", set)
    with pytest.raises(ToolError, match="`pip install tzdata` brings them"):
        Clock().current_time("Europe/Nowhere")


def test_a_clock_that_gives_no_zone_is_a_fault_of_the_program() -> None:
    with pytest.raises(ValueError, match="a moment without a zone"):
        Clock(now=lambda: datetime(2026, 1, 1)).current_time()  # noqa: DTZ001
