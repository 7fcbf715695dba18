"""Which entries a simulated dispatcher passed over in replay, while it sent their owners later ones (F6)."""

from collections.abc import Mapping, Set

from dispatch_audit.pipeline.simulate.partition import PartitionSimulation


class PassedOver:
    """Looks at a simulation that goes on, again and again."""

    def __init__(self, simulation: PartitionSimulation) -> None:
        self._simulation = simulation
        self._since_us: dict[int, int] = {}
        self._looked_us = -1
        self._spans: dict[int, list[tuple[int, int]]] = {}

    def look(self, now_us: int, owners: Mapping[int, int | None], held_before: Set[int]) -> None:
        """Notes what waits in replay, and what came out of a read past it since the last look.

        Args:
            now_us: the time.
            owners: of what is in replay.
            held_before: what consumers held at the last look.
        """
        known = held_before | self._since_us.keys()
        latest = {c.number: max(c.pending.keys() - known, default=-1) for c in self._simulation.state.consumers}
        for position in self._sent_until(now_us) - known:
            # It may have been acknowledged meanwhile.
            owner = self._simulation.state.selector.select(self._simulation.state.hashes[position])
            if owner is not None:
                latest[owner] = max(latest.get(owner, -1), position)
        self._looked_us = now_us
        self._since_us = {position: self._since_us.get(position, now_us) for position in owners}
        for position, since_us in self._since_us.items():
            owner = owners[position]
            if owner is not None and position < latest.get(owner, -1):
                self._spans.setdefault(position, []).append((since_us, now_us))

    def _sent_until(self, now_us: int) -> set[int]:
        """What was sent for the first time since the last look."""
        first_sent_us = self._simulation.state.first_sent_us
        return {position for position, at_us in enumerate(first_sent_us) if self._looked_us < at_us <= now_us}

    def longest_between(self, position: int | None, from_us: int, to_us: int) -> int:
        """How long an entry waited in replay, between two times, until its owner was sent a later one past replay."""
        spans = [] if position is None else self._spans.get(position, [])
        return max((min(end_us, to_us) - max(since_us, from_us) for since_us, end_us in spans), default=0)
