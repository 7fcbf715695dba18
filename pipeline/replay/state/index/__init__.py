"""Finds slots of the state: by position, by hash, by the number of a consumer, and in the order of waiting."""
