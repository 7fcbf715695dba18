"""The replay of the dispatcher: the compiled kernel and the class that drives it."""
