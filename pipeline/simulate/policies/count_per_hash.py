"""One reading of the alternative in PIP-474's review: replay skips what has no permits, counted per hash.

Source: lhotari's comment on apache/pulsar#25706: skip reads for positions of consumers without permits, and take
permits into account for how many entries are read for each hash. 4.x does so for entries whose hash is known in
replay; here it holds for all. The look-ahead limit protects against reading on for nothing, so entries of a hash whose
consumer has no permits count against it up to a number for each hash: more of them do not bring reading to a halt.
"""

from collections.abc import Mapping
from typing import Final

from dispatch_audit.pipeline.assignment.ranges.routing import NOBODY
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.simulate.policies.draining import DrainingPolicy
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState

PER_HASH: Final = 100
OPTION: Final = "lookAheadPerHash"
"""The setting of this policy."""


def per_hash(options: Mapping[str, object]) -> int:
    """The entries of a hash without permits that count against the limit.

    Raises:
        UsageError: the option is no whole number, or below 1.
    """
    value = options.get(OPTION, PER_HASH)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"setting {OPTION} is {value!r}", "give a whole number, 1 or more")
    return value


class CountPerHashPolicy(DrainingPolicy):
    """A draining dispatcher whose limit counts at most `per_hash` entries of a hash whose consumer has no permits."""

    def __init__(self, state: DispatcherState, per_hash: int) -> None:
        super().__init__(state)
        self._per_hash = per_hash

    def counted_in_replay(self) -> int:
        """The entries that count against the limit."""
        state = self.state
        counted = len(state.replay.bare)
        for owner, queues in state.replay.by_owner.items():
            if owner != NOBODY and state.by_number[owner].available() > 0:
                counted += sum(map(len, queues.values()))
            else:
                counted += sum(min(len(queue), self._per_hash) for queue in queues.values())
        return counted

    def replay_candidates(self, entries_max: int) -> list[int]:
        """As 4.x, without entries of unknown hash whose owner has no permits."""
        state = self.state
        rooms: dict[int, int] = {}
        taken = []
        for position in super().replay_candidates(entries_max):
            owner = state.owner_of(state.hashes[position])
            if owner == NOBODY:
                continue
            room = rooms.get(owner)
            if room is None:
                room = state.by_number[owner].available()
            if room > 0:
                rooms[owner] = room - 1
                taken.append(position)
        return taken
