"""Simulates the dispatcher of a Key_Shared subscription: a discrete-event model without I/O (docs/SIMULATION.md)."""
