"""The routings of a subscription: the one in force, which the state has, and those that explain other receivers.

If the recorder writes only the end of a dispatch, a dispatch that was decided under a former routing may be recorded
after the change. For as long as that may take, a former routing explains its receiver.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.assignment.ranges.routing import routing_of_ranges
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.records import NOBODY, Ints, Records


@compiled
def owner_of(routing: Routing, sticky_hash: int) -> int:
    """The index of the consumer that one hash belongs to, or NOBODY; `Routing.owners_of` for compiled functions."""
    slot = sticky_hash % routing.modulus if routing.modulus > 0 else sticky_hash
    owner = int(routing.owners[np.searchsorted(routing.uppers, slot)])
    if owner >= NOBODY:
        return owner
    # Several share the interval (`Routing.sharers`).
    sharers = NOBODY - 1 - owner
    return int(routing.sharers[sharers + 1 + slot % routing.sharers[sharers]])


@checkpointed("routings")
@dataclass(eq=False, slots=True)
class Routings:
    """The routing that the broker's selector actually uses, and the former ones; owners are indexes in the state."""

    _served: Routing = field(default_factory=lambda: routing_of_ranges(()))
    _former: list[tuple[Routing, int]] = field(default_factory=list)

    def change(self, before: Routing, served: Routing, over_us: int, late_us: int) -> None:
        """Notes that another routing is in force.

        Args:
            before: the routing that was in force until now.
            served: the routing of the broker's selector, which a flaw may make another one (contract 2.4).
            over_us: the time by which the change certainly took effect.
            late_us: how much later than it was decided a dispatch may be recorded, at most.
        """
        self._former = [(old, until_us) for old, until_us in self._former if until_us + late_us >= over_us]
        self._former.append((before, over_us))
        self._served = served

    def served_to(self, hashes: Ints) -> Ints:
        """The consumers that the broker's selector sends these hashes to."""
        return self._served.owners_of(hashes)

    def decided_before(self, found: Records, late_us: int) -> NDArray[np.bool_]:
        """Which findings on a wrong owner may be dispatches that were decided under a former routing.

        A dispatch may be recorded up to `late_us` after it was decided.
        """
        explained: NDArray[np.bool_] = np.zeros(found.size, dtype=np.bool_)
        if late_us > 0:
            for routing, until_us in self._former:
                owned = routing.owners_of(found.hash) == found.consumer
                explained |= owned & (found.ts_us <= until_us + late_us)
        return explained
