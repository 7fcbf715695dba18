"""Finds when membership changes took effect, and notes where the trace leaves that open."""
