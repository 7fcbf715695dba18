"""The Delta tables of an audit: their columns, comments and constraints, and how a run is written to them."""
