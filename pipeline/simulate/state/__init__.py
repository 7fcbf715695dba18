"""The state of one simulated subscription: agenda, cursor, consumers, replay queue, draining hashes."""
