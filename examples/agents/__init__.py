"""Agents on real input. Each module runs alone, with a real model or, without a key, with answers written for it."""
