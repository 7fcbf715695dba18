"""The causes of waiting: their numbers in the compiled state, their names in `blocking`, and how a sentence says them.

The compiled functions know a consumer's cause (why it can be sent nothing) and a hash's (what its first entry waits
for); the last three are found by looking at a whole subscription. docs/BLOCKING.md explains each to operators.

Source: contract 3.4, 4.6 to 4.9, 4.12 to 4.14, 6.1.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

READY: Final = 0  # nothing: a consumer that can be sent something, a hash without an open interval
NO_PERMITS: Final = 1
UNACKED_LIMIT_CONSUMER: Final = 2
NO_OWNER: Final = 3
NACK_DELAY: Final = 4
RECENTLY_JOINED: Final = 5
LOOK_AHEAD_LIMIT: Final = 6
UNACKED_LIMIT_SUBSCRIPTION: Final = 7
REPLAY_QUEUE: Final = 8
DELAYED_DELIVERY: Final = 9
NOT_READ_YET: Final = 10
DRAINING: Final = 11
DRAINING_STUCK: Final = 12
UNEXPLAINED: Final = 13

NAMES: Final = (
    "ready",
    "no_permits",
    "unacked_limit_consumer",
    "no_owner",
    "nack_delay",
    "recently_joined",
    "look_ahead_limit",
    "unacked_limit_subscription",
    "replay_queue",
    "delayed_delivery",
    "not_read_yet",
    "draining",
    "draining_stuck",
    "unexplained",
)
"""The name of each cause, by its number."""

CLAUSES: Mapping[int, str] = MappingProxyType(
    {
        NO_PERMITS: "{unavailable} had no permits left",
        UNACKED_LIMIT_CONSUMER: "{unavailable} had as many unacknowledged messages as a consumer may have",
        NO_OWNER: "no consumer owned the hash",
        NACK_DELAY: "it had been given back and waited to be replayed",
        RECENTLY_JOINED: (
            "{consumer} had joined recently and got nothing new while {holder} had older entries (known bug F5)"
        ),
        LOOK_AHEAD_LIMIT: "as many entries waited in replay as the limit of look-ahead allows",
        UNACKED_LIMIT_SUBSCRIPTION: "the subscription had as many unacknowledged messages as it may have",
        REPLAY_QUEUE: "it had been read, and what stood before it in replay was not served",
        DELAYED_DELIVERY: "its producer had asked for a delay",
        NOT_READ_YET: "the broker had not read that far yet",
        DRAINING: "their hashes drained from {blocking}",
        DRAINING_STUCK: "their hashes had drained from {blocking} and were not served all the same",
        UNEXPLAINED: "nothing in the trace says why",
    }
)
"""The clause that says a cause; the fields are consumers as a text calls them."""
