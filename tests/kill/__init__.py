"""The kill test: processes that run a graph are killed at random moments, and each run ends as if nothing had been."""
