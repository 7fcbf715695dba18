"""What a comparison of dispatchers says: as a table in Markdown, as JSON, and as a page."""
