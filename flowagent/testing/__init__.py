"""Tools for those who build on flowagent: the suite that every store must pass."""

from __future__ import annotations

from flowagent.testing.conformance import CHECKS, Check, check_store

__all__ = ["CHECKS", "Check", "check_store"]
