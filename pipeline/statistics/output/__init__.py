"""Diagnoses as text, as JSON, as a page, and as rows of the table `diagnoses`."""
