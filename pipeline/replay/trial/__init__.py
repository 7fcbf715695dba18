"""The first rows of a subscription on trial: whether the broker's selector is the one that the trace claims."""
