"""The settings of the broker by time: what the trace says that they were, and when rows changed them."""
