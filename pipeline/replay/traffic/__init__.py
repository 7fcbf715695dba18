"""How much was published and dispatched, by whom, and under which keys."""
