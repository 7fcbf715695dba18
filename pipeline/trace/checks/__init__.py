"""Checks the rows of a trace: whole columns first, then one by one the rows that may be bad."""
