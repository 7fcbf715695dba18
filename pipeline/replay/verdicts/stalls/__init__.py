"""Findings of `draining_stuck` and `stalled`: entries that could be sent and were not."""
