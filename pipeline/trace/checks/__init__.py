"""Checks the rows of a trace: whole columns first, and one by one those that are not good beyond doubt."""
