"""Measurements, apart from the tests: they say how long things take, not whether they are right."""
