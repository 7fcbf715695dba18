"""The state as observers take it: they read all of it, and write their own memory (`memories`).

The names say what a function writes; `tests/layout/test_one_writer.py` follows its writes and finds all others.
"""

from typing import TypeAlias

from dispatch_audit.pipeline.replay.state.state import State

Seen: TypeAlias = State
"""The state of the dispatcher and the memories of all observers, to be read."""
SeenByRules: TypeAlias = State
"""The state as a rule takes it: it notes what it has checked (`checks`)."""
SeenByLimits: TypeAlias = State
"""The state as `rules.limits` takes it: it writes `limits`."""
SeenByBlocking: TypeAlias = State
"""The state as `blocking` takes it: it writes `waits`."""
