"""The comparison of `docs/performance.md` can be repeated: the benchmarks run, and write a table of what happened."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def run_script(name: str, *words: str) -> dict[str, Any]:
    """The line that a script prints of one run."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(BENCH / name), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=environment)
    return json.loads(done.stdout)


def tables_of(markdown: str) -> list[list[list[str]]]:
    """The rows of each table in a text, rulers left out; what was measured is shown by a #."""
    tables = re.findall(r"(?:^\|.*\n)+", markdown, re.MULTILINE)
    return [[cells_of(line) for line in table.splitlines() if "---" not in line] for table in tables]


def cells_of(line: str) -> list[str]:
    """The cells of a row; times, ratios, and figures that stand alone are shown by a #."""
    shown = [
        re.sub(r"[\d.]+ [mµ]?s|(?<=×)[\d.]+|[\d.]+(?= × floor)", "#", cell.strip()) for cell in line.split("|")[1:-1]
    ]
    return [re.sub(r"^-?\d+\.\d+$", "#", cell) for cell in shown]


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
    assert tables_of(text) == [
        [
            ["workload", "n", "store", "flowagent", "floor", "langgraph"],
            ["W1", "20", "none", "# (# × floor)", "# (×#)", "failed"],
            ["W6", "10", "sqlite", "# (# × floor)", "# (×#)", "failed"],
        ]
    ]


def test_a_side_that_uses_up_the_patience_is_run_once_and_not_at_a_larger_size() -> None:
    done = bench("W3::10", "W3::20", "--runs=2", "--patience=0", "--markdown=-")

    assert done.returncode == 0
    assert "not run: by a smaller size it would take over 0 s" in done.stdout
    times, _ = tables_of(done.stdout)
    assert times == [
        ["workload", "n", "store", "flowagent", "floor"],
        ["W3", "10", "sqlite", "# (# × floor, 1 run)", "# (×#, 1 run)"],
        ["W3", "20", "sqlite", "not run", "not run"],
    ]


def test_a_page_has_a_table_for_each_place_and_one_of_what_was_counted(tmp_path: Path) -> None:
    done = bench("W3::10", "W3::20", "--runs=1", "--markdown=-", f"--dir={tmp_path}", f"--dir={tmp_path}")

    assert done.returncode == 0
    first, second, counted = tables_of(done.stdout)
    assert first == second
    assert [row[0] for row in first[1:]] == ["W3", "W3"]
    assert counted == [
        ["", "flowagent", "floor"],
        ["bytes stored for each byte appended, W3 with 10", "#", "#"],
        ["bytes stored for each byte appended, W3 with 20", "#", "#"],
        ["time grows with the power of n, W3 from 10 to 20", "#", "#"],
    ]


def test_the_import_is_that_of_fresh_processes() -> None:
    done = run_script("floor.py", "W7", "--n=1")
    assert done["workload"] == "W7"
    assert done["extra"] == {"modules": pytest.approx(150, abs=100)}
    assert 0 < done["seconds"] < 60


def test_a_flush_beside_those_of_the_store_is_told_apart_from_them(tmp_path: Path) -> None:
    done = run_script("flowagent_bench.py", "W2", "--n=5", "--store=sqlite", "--variant=beside", f"--dir={tmp_path}")
    assert done["extra"]["beside_s"] > 0
    assert done["seconds"] > 0


def test_a_folder_without_any_environment_is_refused(tmp_path: Path) -> None:
    done = bench("W1::20", f"--peers={tmp_path}")
    assert done.returncode == 2
    assert "has no environment of any engine" in done.stderr


SCRIPTS = [BENCH / "floor.py", *sorted((BENCH / "peers").glob("*_bench.py"))]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_each_side_runs_the_workloads_that_we_run_or_says_what_it_lacks(script: Path) -> None:
    def run(file: Path) -> list[str]:
        return re.findall(r'"(W\d)": w\d', file.read_text(encoding="utf-8"))

    lacked = re.search(r"lacks=(.*)", script.read_text(encoding="utf-8"))
    lacks: list[str] = re.findall(r'"(W\d)"', lacked[1]) if lacked else []
    assert sorted(run(script) + lacks) == sorted(run(BENCH / "flowagent_bench.py"))


@pytest.mark.parametrize("script", SCRIPTS[1:], ids=lambda script: script.stem)
def test_each_peer_says_how_its_environment_is_made_and_is_named_in_the_readme(script: Path) -> None:
    name = script.stem.removesuffix("_bench")
    text = script.read_text(encoding="utf-8")
    assert f"python -m venv .venvs/{name}" in text
    assert len(re.findall(rf"\.venvs/{name}/bin/pip install .+", text)) == 1, "what install.py is to install"
    readme = (BENCH / "README.md").read_text(encoding="utf-8")
    assert f"`peers/{script.name}`" in readme
    assert f".venvs/{name}" in readme


def test_the_page_tells_of_each_workload_and_has_a_measured_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    measured = re.search(r"^<!-- measured -->\n(.*?)^<!-- /measured -->$", text, re.MULTILINE | re.DOTALL)
    assert measured is not None
    in_table = {row[0] for table in tables_of(measured[1]) if table[0][0] == "workload" for row in table[1:]}
    assert in_table == set(re.findall(r"^\| (W\d) \|", text.replace(measured[0], ""), re.MULTILINE))
