"""The replay of one subscription: its members, its dispatcher, its checkpoint and its result."""
