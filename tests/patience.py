"""How long tests wait."""

from typing import Final

PATIENCE: Final = 60.0
"""Seconds that something may take which takes no time. Only a test that fails waits so long; the processes of
neighbours may keep a machine busy for many seconds."""
