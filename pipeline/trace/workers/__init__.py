"""Divides the files of a trace into shares, and reads a share in a worker."""
