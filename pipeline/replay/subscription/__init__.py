"""The replay of one subscription: its consumers, its dispatcher, its checkpoint and its result."""
