"""Reads and checks Parquet files in the workers, without Spark's reader."""
