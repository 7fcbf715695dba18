"""The interface of observers, which look at the replay of a subscription between two rows."""

from typing import Protocol

from dispatch_audit.pipeline.replay.dispatcher.claimed_limits import ContradictedLimit
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.packing.events import Events
from dispatch_audit.pipeline.replay.state.records import Ints
from dispatch_audit.pipeline.replay.timeline.undecided_ranges import UndecidedRanges


class Observer(Protocol):
    """Looks at the dispatcher between two rows, and changes nothing. A replay with one has no checkpoint."""

    def replay(self, dispatcher: Dispatcher, events: Events, hashes: Ints, consumers: Ints) -> list[ContradictedLimit]:
        """Calls `dispatcher.replay` on the rows, cut where the observer looks, and returns the results together."""

    def finish(self, dispatcher: Dispatcher, doubts: UndecidedRanges) -> None:
        """Takes a last look, before the dispatcher closes what is open, and takes the hashes whose owners are open."""
