"""Divides a trace into parts, and reads each part in a task."""
