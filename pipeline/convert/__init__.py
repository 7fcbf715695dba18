"""Converts the logs of a trace to Parquet or Delta, partitioned by topic; refused rows go beside them."""
