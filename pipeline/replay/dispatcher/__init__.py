"""The dispatcher as the trace drives it: the compiled kernel and the class that calls it."""
