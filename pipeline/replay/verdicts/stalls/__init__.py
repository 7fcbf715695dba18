"""Findings of `stalled` about a whole subscription."""
