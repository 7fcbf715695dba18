"""The causes of waiting.

The compiled functions keep a cause for each consumer (why nothing can be sent to it) and for each hash (what its first
entry waits for). Some causes need the whole subscription. docs/BLOCKING.md explains each to operators.

Source: contract 3.4, 4.2, 4.6 to 4.9, 4.12 to 4.14, 6.1.
"""

from enum import IntEnum


class Cause(IntEnum):
    """A cause of waiting, by its number in the state."""

    READY = 0  # none: the consumer can be sent something, or the hash has no open interval
    NO_PERMITS = 1
    UNACKED_LIMIT_CONSUMER = 2
    NO_OWNER = 3
    NACK_DELAY = 4
    RECENTLY_JOINED = 5
    LOOK_AHEAD_LIMIT = 6
    UNACKED_LIMIT_SUBSCRIPTION = 7
    REPLAY_QUEUE = 8
    DELAYED_DELIVERY = 9
    NOT_READ_YET = 10
    DRAINING = 11
    DRAINING_STUCK = 12
    UNEXPLAINED = 13
    DISPATCH_RATE_LIMIT = 14
    ACK_HOLES_LIMIT = 15
    OVERDUE = 16
    BROKER_HUNG = 17

    @property
    def word(self) -> str:
        """Its name in table `blocking`."""
        return self.name.lower()
