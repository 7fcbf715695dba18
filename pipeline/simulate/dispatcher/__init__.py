"""The simulated dispatcher: its read loop, what it sends, and the policies that decide what goes where."""
