"""Object stores: their options, and paths in them."""
