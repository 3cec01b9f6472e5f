"""The tests; a package, so that they can import one another's helpers by full path."""
