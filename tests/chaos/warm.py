"""Imported by the server that processes are forked from: loads what each of them would load when it is first used."""

from __future__ import annotations

import gc
import importlib

from tests.chaos import workers
from tests.kill.graphs import SUBJECTS

for _late in ("core.runs", "core.check", "core.sketch", "stores.sqlite"):
    importlib.import_module(f"flowagent.{_late}")
for _other in ("jsonschema", "tests.chaos.upgrade"):
    importlib.import_module(_other)
for _graph in (*(subject.graph for subject in SUBJECTS.values()), workers.napping()):
    _graph.check()
gc.collect()
gc.freeze()  # or the first collection of each process would copy every page of the server
