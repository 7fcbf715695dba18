"""Limits of the dispatch rate: which pauses settings or the traffic explain."""
