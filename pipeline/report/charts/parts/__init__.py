"""What several charts are made of."""
