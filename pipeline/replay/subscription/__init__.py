"""The replay of one subscription: its consumers, its owners of hashes, its gaps and its result."""
