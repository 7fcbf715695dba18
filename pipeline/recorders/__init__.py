"""The recorders of a trace: the terms in which each owned a topic, and the common order of their rows."""
