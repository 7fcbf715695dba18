"""The recorders of a trace: who owned a topic when, and the one order of all their rows."""
