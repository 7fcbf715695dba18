"""Findings on snapshots of the broker, and on settings that the trace claims."""
