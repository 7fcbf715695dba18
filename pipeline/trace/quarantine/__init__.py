"""Rows that the audit cannot use: why, where they stand, and how many there are."""
