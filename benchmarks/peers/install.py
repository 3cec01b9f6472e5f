"""Make an environment for each of the other engines, as the head of its script says.

python benchmarks/peers/install.py .venvs
python benchmarks/peers/install.py .venvs langgraph burr    some of them
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent


def packages_of(script: Path) -> list[str]:
    """What the head of a script tells pip to install."""
    (words,) = re.findall(r"/bin/pip install (.+)", script.read_text(encoding="utf-8"))
    return shlex.split(words)


def main() -> None:
    """Make what is missing; pip brings the rest up to what is asked for."""
    folder, *wanted = sys.argv[1:] or [".venvs"]
    scripts = {script.stem.removesuffix("_bench"): script for script in sorted(HERE.glob("*_bench.py"))}
    for name in wanted or scripts:
        place = Path(folder).absolute() / name
        if not place.exists():
            venv.create(place, with_pip=True)
        python = place / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        packages = packages_of(scripts[name])
        print(f"{name}: {' '.join(packages)}", flush=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)


if __name__ == "__main__":
    main()
