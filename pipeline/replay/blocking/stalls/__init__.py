"""Times in which nothing was sent to any consumer although entries waited, and what caused them."""
