"""`import flowagent` is light (P14): pydantic and the standard library, everything else when it is first used."""

import json
import os
import subprocess
import sys

PYDANTIC = {"annotated_types", "pydantic", "pydantic_core", "typing_extensions", "typing_inspection"}

# Each of these is loaded when it is first used: at the first check, picture, store, model or command.
LATE = {
    "anthropic",
    "apsw",
    "flowagent.cli",
    "flowagent.render",
    "flowagent.stores.sqlite",
    "flowagent.testing",
    "flowagent.tracing",
    "graphviz",
    "graphviz_pure",
    "httpx",
    "httpx2",
    "networkx",
    "openai",
    "opentelemetry",
    "rich",
    "sqlite3",
    "typer",
}

PROBE = """
import json, sys
before = set(sys.modules)
import {module}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(module: str) -> set[str]:
    """The names of the modules that importing this one loads in a fresh interpreter."""
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    probe = [sys.executable, "-c", PROBE.format(module=module)]
    return set(json.loads(subprocess.run(probe, capture_output=True, text=True, check=True, env=quiet).stdout))


def test_import_loads_nothing_that_is_used_later() -> None:
    """Neither networkx, nor an SDK, a store, a renderer or the command line is loaded by the import."""
    assert loaded_by("flowagent") & LATE == set()


def test_import_loads_pydantic_and_the_standard_library() -> None:
    """Beside pydantic and what pydantic itself needs, the import loads the standard library only."""
    packages = {name.partition(".")[0] for name in loaded_by("flowagent")}
    build_data = {name for name in packages if name.startswith("_sysconfigdata_")}  # the library's, named by platform
    assert packages - sys.stdlib_module_names - build_data - PYDANTIC == {"flowagent"}


def test_probe_sees_what_is_loaded() -> None:
    """The probe would notice: importing networkx shows networkx."""
    assert loaded_by("networkx") & LATE == {"networkx"}
