"""Rows that the audit cannot use: their reasons, origins and numbers."""
