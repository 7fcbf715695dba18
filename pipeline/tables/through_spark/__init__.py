"""Tables of a catalog or below a URI, read and written through Spark."""
