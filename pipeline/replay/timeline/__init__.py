"""When membership changes took effect, and where the trace leaves that open."""
