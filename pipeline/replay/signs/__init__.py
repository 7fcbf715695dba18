"""What recorders say of themselves and their brokers: that they run, hang or end."""
