"""Findings of `draining_stuck` and `stalled`: what could be sent and was not."""
