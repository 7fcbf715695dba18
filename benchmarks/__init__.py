"""Measures the cost of audits; the tests check the results."""
