"""Audits recorded Apache Pulsar Key_Shared dispatch traces.

`jobs`, `pipeline`, `recording`, `udfs` and `conf` lie at the top of the repository; here stand links to them. The wheel
has the real folders in this place, so that an installed audit takes one name, and its modules are called the same
everywhere.
"""
