"""Workflows on real input. Each one runs alone; none of them needs a model, a network or a key."""
