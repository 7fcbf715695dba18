"""Who waited for whom, for how long and why; which hashes were starved, and what stalled."""
