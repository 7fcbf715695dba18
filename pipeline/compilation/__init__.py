"""Compiles functions with numba, and keeps the code: in the wheel, and on disk where that of the wheel does not fit."""
