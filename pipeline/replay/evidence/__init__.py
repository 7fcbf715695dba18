"""What rows and snapshots show of the settings of the broker, compared with what the trace claims."""
