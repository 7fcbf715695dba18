"""Reads what workers cannot open through a scan of Spark, with the same checks."""
