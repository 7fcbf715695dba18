"""The selectors of Pulsar: how each divides the hashes among consumers (contract 2)."""
