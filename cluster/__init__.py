"""Spark clusters for tests of the audit."""
