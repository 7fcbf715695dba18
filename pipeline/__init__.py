"""From recorded dispatch traces to findings, and from findings to reports."""
