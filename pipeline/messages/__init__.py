"""Words of messages: names that are near, and the faults of files."""
