"""The clients of a simulated subscription: what they do with the entries that they are sent."""
