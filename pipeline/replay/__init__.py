"""The replay of the dispatcher from a trace: state, transitions, rules, and their use on Spark."""
