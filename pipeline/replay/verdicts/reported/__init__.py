"""Findings on what the broker reports of itself, and on what the trace claims of it."""
