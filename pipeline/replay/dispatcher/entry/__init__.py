"""What happens to one entry: its slot, when it waits and until when it is delayed, and who holds it."""
