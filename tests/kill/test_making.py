"""A store file whose maker is killed while it makes it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_store_whose_maker_was_killed_is_of_use(quick_path: Path) -> None:
    """At whichever write, flush or cut of the making a process dies, the next one makes the store."""
    command = [sys.executable, "-m", "tests.kill.making"]
    environment = {**os.environ, "TMPDIR": str(quick_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
