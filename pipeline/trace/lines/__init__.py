"""Reads JSON Lines in the workers: compiled code for good lines, Python for every other one."""
