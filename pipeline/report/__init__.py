"""What an audit says of a trace: texts and objects, built from the tables only."""
