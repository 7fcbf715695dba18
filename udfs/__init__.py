"""User-defined functions: the sticky key hash, for arrays and for Spark columns."""
