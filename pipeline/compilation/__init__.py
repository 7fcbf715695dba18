"""Compiles functions with numba, and keeps the code: in the wheel, and on the disk of whoever has another version."""
