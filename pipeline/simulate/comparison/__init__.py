"""What a comparison of dispatchers says, in all its forms, and what a single simulation says."""
