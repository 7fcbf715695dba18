"""The Python API: what the commands do, as functions with typed results (docs/API.md)."""
