"""Deterministic simulation of the engine: `python -m tests.simulation --seeds 1000`. See README.md here."""
