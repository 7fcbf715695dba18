"""Spark clusters to try the audit on."""
