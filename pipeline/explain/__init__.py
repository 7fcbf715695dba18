"""Explains one finding, hash or moment: the events around it, and the shortest trace that shows it."""
