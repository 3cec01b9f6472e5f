"""Tools: what a model may ask to be called, and the running of such calls. Knows models' plain data, and no agents."""
