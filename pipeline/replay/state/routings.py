"""The routings of a subscription: the one in force, the one that its selector actually uses, and the former ones.

If the recorder writes only the end of a dispatch, a dispatch that was decided under a former routing may be recorded
after the change. For as long as that may take, a former routing explains its receiver.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.assignment.ranges.routing import routing_of_ranges
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.rules import MISROUTED
from dispatch_audit.pipeline.replay.state.policy import RoutingArrays, routing_arrays
from dispatch_audit.pipeline.replay.state.state import Ints, Records


@checkpointed("routings")
class Routings:
    """From sticky hashes to indexes of consumers.

    Attributes:
        in_force: the routing that the rules require.
    """

    __slots__ = ("__dict__", "_former", "_served", "in_force")

    def __init__(self) -> None:
        self.in_force = routing_of_ranges(())
        self._served = self.in_force
        self._former: list[tuple[Routing, int]] = []

    @cached_property
    def arrays(self) -> RoutingArrays:
        """The routing in force, as compiled functions take it."""
        return routing_arrays(self.in_force)

    def change(self, routing: Routing, served: Routing, over_us: int, late_us: int) -> RoutingArrays:
        """Puts another routing in force and returns the one before.

        Args:
            routing: the routing that the rules require from now on.
            served: the routing of the broker's selector, which a flaw may make another one (contract 2.4).
            over_us: the time by which the change certainly took effect.
            late_us: how much later than it was decided a dispatch may be recorded, at most.
        """
        before = self.arrays
        self._former = [(old, until_us) for old, until_us in self._former if until_us + late_us >= over_us]
        self._former.append((self.in_force, over_us))
        self.in_force, self._served = routing, served
        vars(self).pop("arrays", None)
        return before

    def served_to(self, hashes: Ints) -> Ints:
        """The consumers that the broker's selector sends these hashes to."""
        return self._served.owners_of(hashes)

    def decided_before(self, found: Records, late_us: int) -> NDArray[np.bool_]:
        """Which findings of a wrong owner may be dispatches that were decided under a former routing.

        Args:
            found: findings.
            late_us: how much later than it was decided a dispatch may be recorded; 0: not at all.
        """
        explained: NDArray[np.bool_] = np.zeros(found.size, dtype=np.bool_)
        if late_us > 0:
            for routing, until_us in self._former:
                owned = routing.owners_of(found.hash) == found.consumer
                explained |= owned & (found.ts_us <= until_us + late_us)
        explained &= np.isin(found.rule, MISROUTED)
        return explained
