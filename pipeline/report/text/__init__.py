"""The report as text, for a terminal and for files."""
