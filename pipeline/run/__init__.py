"""One run of the audit: its task, its key, its stages and its verdict."""
