"""The list of probes in `tests/SCENARIOS.md` and the tests are the same."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_every_probe_is_listed_in_its_row_and_every_listed_one_exists() -> None:
    """72 rows; each names the tests of its number, or says what it waits for."""
    text = (HERE.parent / "SCENARIOS.md").read_text(encoding="utf-8")
    rows = {int(number): row for number, row in re.findall(r"^\| (\d+) \| (.*)$", text, re.MULTILINE)}
    assert list(rows) == list(range(1, 73))
    listed = {number: re.findall(r"`(test_probe_\w+)`", row) for number, row in rows.items()}
    assert [n for n, row in rows.items() if not listed[n] and "waits for: " not in row] == []
    written = [
        name
        for path in sorted(HERE.glob("test_probes_*.py"))
        for name in re.findall(r"^(?:async )?def (test_probe_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert sorted(name for names in listed.values() for name in names) == sorted(written)
    assert all(name.startswith(f"test_probe_{number:02}_") for number, names in listed.items() for name in names)
