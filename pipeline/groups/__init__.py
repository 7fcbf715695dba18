"""The answers on one group: from its packed batches to rows of the tables, without an engine."""
