"""Faults that a simulated broker has from some moment on, so that tests see whether an audit finds them.

What differs between versions, or is broken from the start, is a switch (`switches`).
"""

from dataclasses import dataclass
from typing import Final, Literal

NO_KEY: Final = -1


@dataclass(frozen=True, slots=True)
class Faults:
    """The faults of a broker; by default there are none.

    Attributes:
        from_us: when the faults of the next four attributes begin.
        stuck_read: the first normal or replay read from then on does not complete, so the dispatcher believes that it
            is pending (#26454); None: all complete.
        stuck_for_us: how long it is stuck at most; 0: until an unload or a seek.
        starved_key: the number of a key whose hash nobody is sent any more; `NO_KEY`: there is none.
        misrouted_key: the number of a key whose hash is sent to another consumer than its owner.
        over_consumer_limit: messages that each consumer may have unacknowledged beyond its limit.
        over_subscription_limit: messages that the subscription may have unacknowledged beyond its limit.
    """

    from_us: int = 0
    stuck_read: Literal["normal", "replay"] | None = None
    stuck_for_us: int = 0
    starved_key: int = NO_KEY
    misrouted_key: int = NO_KEY
    over_consumer_limit: int = 0
    over_subscription_limit: int = 0

    @property
    def of_routing(self) -> bool:
        """Whether a hash is sent to the wrong consumer, or to nobody."""
        return self.starved_key != NO_KEY or self.misrouted_key != NO_KEY


NO_FAULTS: Final = Faults()
