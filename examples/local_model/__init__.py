"""A real language model on this computer, small enough for a test: see `__main__`."""
