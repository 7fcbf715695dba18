"""The checkpoint of a subscription: what its replay knows at the end of a window, as bytes."""
