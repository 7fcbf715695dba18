"""Limits that no row shows, and that may be why nothing is sent."""
