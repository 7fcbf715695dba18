"""Workloads: what is published, who consumes it, and what happens meanwhile."""
