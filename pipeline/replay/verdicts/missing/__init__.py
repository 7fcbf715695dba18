"""Verdicts on findings that rows may explain which the trace does not have."""
