"""Verdicts on findings that rows missing in the trace may explain."""
