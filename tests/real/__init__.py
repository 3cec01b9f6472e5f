"""Tests against servers that others wrote: a mock server that plays models, and a real model."""
