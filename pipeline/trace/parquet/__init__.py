"""Columnar files, which the workers read and check by themselves."""
