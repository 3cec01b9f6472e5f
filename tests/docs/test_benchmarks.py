"""The comparison of `docs/performance.md` can be repeated: the benchmarks run, and write a table of what happened."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.draw import ROOT
from flowagent.core.version import VERSION

BENCH = ROOT / "benchmarks"
PAGE = ROOT / "docs" / "performance.md"


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    """One call of `benchmarks/run.py`."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(BENCH / "run.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)


def rows_of(markdown: str) -> list[list[str]]:
    """The rows of the one table in a text, its ruler left out; what was measured is shown by a #."""
    lines = [line for line in markdown.splitlines() if line.startswith("|") and "---" not in line]
    return [[re.sub(r"[\d.]+ m?s", "#", cell.strip()) for cell in line.strip("|").split("|")] for line in lines]


def test_a_table_has_a_row_for_each_job_and_says_what_a_side_lacks_or_could_not_do(tmp_path: Path) -> None:
    broken = tmp_path / "langgraph" / "bin" / "python"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho 'no such module' >&2\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured -->\nold\n<!-- /measured -->\nafter\n", encoding="utf-8")

    done = bench("W1::20", "W6::10", "--runs=1", f"--peers={tmp_path}", f"--markdown={page}", f"--dir={tmp_path}")

    assert done.returncode == 1, "a side that broke down fails the call"
    assert "FAILED: no such module" in done.stdout
    assert "no environment for burr" in done.stderr
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n<!-- measured -->\n\n20")
    assert f"; flowagent {VERSION}" in text
    assert text.endswith("\n\n<!-- /measured -->\nafter\n")
    assert str(tmp_path) not in text
    rows = rows_of(text)
    assert rows[0] == ["workload", "n", "store", "flowagent", "floor", "langgraph"]
    assert [[re.sub(r"×[\d.]+", "×#", cell) for cell in row] for row in rows[1:]] == [
        ["W1", "20", "none", "#", "# (×#)", "failed"],
        ["W6", "10", "sqlite", "#", "–", "failed"],
    ]


def test_a_folder_without_any_environment_is_refused(tmp_path: Path) -> None:
    done = bench("W1::20", f"--peers={tmp_path}")
    assert done.returncode == 2
    assert "has no environment of any engine" in done.stderr


@pytest.mark.parametrize("script", sorted((BENCH / "peers").glob("*_bench.py")), ids=lambda script: script.stem)
def test_each_peer_runs_the_workloads_that_we_run(script: Path) -> None:
    def workloads(file: Path) -> set[str]:
        return set(re.findall(r'"(W\d)": w\d', file.read_text(encoding="utf-8")))

    assert workloads(script) == workloads(BENCH / "flowagent_bench.py")


def test_the_page_tells_of_each_workload_and_has_a_measured_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    measured = re.search(r"^<!-- measured -->\n(.*?)^<!-- /measured -->$", text, re.MULTILINE | re.DOTALL)
    assert measured is not None
    in_table = {row[0] for row in rows_of(measured[1])[1:]}
    assert in_table == set(re.findall(r"^\| (W\d) \|", text.replace(measured[0], ""), re.MULTILINE))
