"""The output of a simulation: rows of format 1."""
