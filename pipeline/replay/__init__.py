"""The dispatcher as a trace shows it: state, transitions, rules, and the lift onto Spark."""
