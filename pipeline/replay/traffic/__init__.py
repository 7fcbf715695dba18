"""Counts of published and dispatched entries, by producer, key and hash."""
