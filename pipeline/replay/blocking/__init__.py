"""Waiting: which entries waited for whom, for how long and why; starved hashes; stalls of the subscription."""
