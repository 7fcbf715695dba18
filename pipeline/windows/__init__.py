"""Windows of a growing log: what is asked for, where the cuts lie, and what is carried over."""
