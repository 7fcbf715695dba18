"""Finds signs in the facts of a subscription: what holds it up, and counters that cannot be."""
