"""The engine that runs the audit, and what engines do differently.

The audit runs on Apache Spark (a session of its own, spark-submit, Databricks, Spark Connect) and on Sail, an engine
without Java that speaks Spark Connect. All differences between them are in this room: the rest of the package calls
`map_in_arrow` and `map_groups` and does not know the engine.
"""
