"""Makes rows of event `settings`: all policies of a subscription at the first look, and what changed at others.

Source: TRACE_FORMAT, "Settings".
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

LOOK_S: Final = 60.0
"""Policies rarely change, and each is a request of its own: a subscription's are asked for once in so many seconds."""


@dataclass
class PolicyRows:
    """What each subscription's policies were when they were last asked for."""

    _asked: dict[str, float] = field(default_factory=dict)
    _looks: dict[tuple[str, str], tuple[int, Mapping[str, int | bool]]] = field(default_factory=dict)

    def are_due(self, topic: str) -> bool:
        """Whether the policies of a topic were not asked for recently."""
        return time.monotonic() - self._asked.get(topic, -LOOK_S) >= LOOK_S

    def columns(
        self, topic: str, subscription: str, looked: int, found: Mapping[str, int | bool]
    ) -> dict[str, Any] | None:
        """Returns the columns of a row that say what is new; None: nothing is.

        Args:
            topic: its full name.
            subscription: its name.
            looked: the last number of the recording before this look.
            found: settings by name.
        """
        self._asked[topic] = time.monotonic()
        before, known = self._looks.get((topic, subscription), (None, {}))
        self._looks[topic, subscription] = (looked, {**known, **found})
        changed = {name: value for name, value in found.items() if known.get(name) != value}
        if not changed:
            return None
        return {"settings": changed} if before is None else {"seq_begin": before, "settings": changed}
