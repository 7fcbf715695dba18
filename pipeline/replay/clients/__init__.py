"""Facts about the clients of one subscription: what they do that makes entries come again, or never end."""
