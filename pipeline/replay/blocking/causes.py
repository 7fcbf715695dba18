"""The causes of waiting: their numbers in the compiled state, their names in `blocking`, their clauses in sentences.

The compiled functions keep a cause for each consumer (why nothing can be sent to it) and for each hash (what its first
entry waits for). Some causes need the whole subscription. docs/BLOCKING.md explains each to operators.

Source: contract 3.4, 4.2, 4.6 to 4.9, 4.12 to 4.14, 6.1.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# 0 is `state.availability.READY`: no cause.
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
DISPATCH_RATE_LIMIT: Final = 14
ACK_HOLES_LIMIT: Final = 15
OVERDUE: Final = 16

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
    "dispatch_rate_limit",
    "ack_holes_limit",
    "overdue",
)
"""The name of each cause, by its number."""

CLAUSES: Mapping[str, str] = MappingProxyType(
    {
        NAMES[NO_PERMITS]: "{unavailable} had no permits left",
        NAMES[UNACKED_LIMIT_CONSUMER]: "{unavailable} had reached the limit of unacknowledged messages of a consumer",
        NAMES[NO_OWNER]: "no consumer owned the hash",
        NAMES[NACK_DELAY]: "a redeliver request had returned them and they were not replayed yet",
        NAMES[RECENTLY_JOINED]: (
            "{consumer} had joined recently and got no new entries while {holder} held older ones (known bug F5)"
        ),
        NAMES[LOOK_AHEAD_LIMIT]: "the replay queue had reached the look-ahead limit",
        NAMES[UNACKED_LIMIT_SUBSCRIPTION]: "the subscription had reached its limit of unacknowledged messages",
        NAMES[REPLAY_QUEUE]: "they were read before and were still in the replay queue",
        NAMES[DELAYED_DELIVERY]: "the producer had asked for a delay",
        NAMES[NOT_READ_YET]: "the broker had not read that far yet",
        NAMES[OVERDUE]: "the delay that the producer had asked for was over and the broker did not send them",
        NAMES[DRAINING]: "their hashes were draining from {blocking}",
        NAMES[DRAINING_STUCK]: "their hashes had drained from {blocking} but were still not sent to the new owner",
        NAMES[UNEXPLAINED]: "of a reason that the trace does not show",
        NAMES[DISPATCH_RATE_LIMIT]: "the dispatch rate was limited{limit}",
        NAMES[ACK_HOLES_LIMIT]: (
            "the cursor had more ranges of acknowledged entries than it persists, and the dispatcher pauses until "
            "acknowledgements close them (dispatcherPauseOnAckStatePersistentEnabled)"
        ),
    }
)
"""The clause for each cause, behind "because"; the fields are consumers by their names in a text."""

CLAUSES_OF_ALL: Mapping[str, str] = MappingProxyType(
    {
        **CLAUSES,
        NAMES[RECENTLY_JOINED]: (
            "consumers that had joined recently got no new entries while {holder} held older ones (known bug F5)"
        ),
    }
)
"""The same where no consumer at all was sent anything."""
