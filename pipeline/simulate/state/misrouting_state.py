"""A dispatcher that sends one hash to the wrong consumer, or to nobody: a fault for tests of the audit."""

from dispatch_audit.pipeline.assignment.ranges.routing import NOBODY
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState


class MisroutingState(DispatcherState):
    """The fields of a dispatcher whose lookup of owners is wrong for one hash; its statistics show the true ranges."""

    __slots__ = ("_faulty_hash", "_to_nobody")

    def misroute(self, fault: tuple[int, bool]) -> None:
        """Sends a hash to another consumer than its owner from now on, or to nobody.

        Args:
            fault: the hash, and whether it is sent to nobody.
        """
        self._faulty_hash, self._to_nobody = fault
        self.ownership_changed()

    def owner_of(self, sticky_hash: int) -> int:
        """The number of the consumer that is sent a hash, or `NOBODY`."""
        if sticky_hash not in self.owners and sticky_hash == getattr(self, "_faulty_hash", None):
            owner = super().owner_of(sticky_hash)
            others = [consumer.number for consumer in self.consumers if consumer.number != owner]
            self.owners[sticky_hash] = NOBODY if self._to_nobody else next(iter(others), owner)
        return super().owner_of(sticky_hash)
