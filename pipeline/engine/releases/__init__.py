"""What releases of Spark do differently."""
