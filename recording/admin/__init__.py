"""Records the statistics of a broker's admin API."""
