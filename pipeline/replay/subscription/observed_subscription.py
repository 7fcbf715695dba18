"""The replay of a subscription that is looked at between two rows."""

from typing import Protocol

from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.packing.events import Events
from dispatch_audit.pipeline.replay.state.state import Ints
from dispatch_audit.pipeline.replay.subscription.step_loop import StepLoop
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription
from dispatch_audit.pipeline.replay.timeline.undecided_ranges import UndecidedRanges


class Observer(Protocol):
    """Looks at the dispatcher between two rows, and changes nothing."""

    def replay(self, dispatcher: Dispatcher, events: Events, hashes: Ints, consumers: Ints) -> None:
        """Calls `dispatcher.replay` for the rows, cut wherever the dispatcher is to be looked at."""

    def finish(self, dispatcher: Dispatcher, doubts: UndecidedRanges) -> None:
        """Takes a last look before what is open is closed, and the hashes whose owners are open."""


def observed_subscription(config: ReplayConfig, observer: Observer) -> Subscription:
    """A `Subscription` with an observer, which follows the replay from its beginning; it has no checkpoint."""
    return Subscription(config, _ObservedLoop(config, observer))


class _ObservedLoop(StepLoop):
    def __init__(self, config: ReplayConfig, observer: Observer) -> None:
        super().__init__(config)
        self._observer = observer

    def finish(self) -> None:
        self._observer.finish(self.dispatcher, self.membership.owners.doubts)

    def _dispatch(self, events: Events, hashes: Ints, consumers: Ints) -> None:
        self._observer.replay(self.dispatcher, events, hashes, consumers)
