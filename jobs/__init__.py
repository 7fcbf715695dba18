"""The command line and the entry points for spark-submit: thin, the work is done in `pipeline`."""
