"""One group, from its packed batches to rows of the tables: the replay and what surrounds it, without an engine."""
