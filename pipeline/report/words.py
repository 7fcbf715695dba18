"""Words of the reports in other words, for readers who meet them for the first time (docs/BLOCKING.md says more)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

MESSAGE_SECOND: Final = "a message that waited for a second; three that waited for two seconds are six"

CAUSES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "draining": "the hash had moved to another consumer, and its former owner still held entries of it",
        "draining_stuck": "the former owner held no entry of the hash any more, and still they were not sent",
        "recently_joined": "a consumer that had just joined gets nothing new before older entries are acknowledged",
        "no_permits": "the consumer had asked for no more messages: its receiver queue was full",
        "unacked_limit_consumer": "the consumer held as many unacknowledged messages as the broker allows one",
        "unacked_limit_subscription": "the subscription had as many unacknowledged messages as the broker allows it",
        "look_ahead_limit": "so many entries waited in the replay queue that the broker read nothing new for anyone",
        "no_owner": "no connected consumer owned the hash",
        "nack_delay": "a consumer had given the entries back, and the broker had not read them again yet",
        "delayed_delivery": "the producer had asked for a later delivery",
        "replay_queue": "the broker had read the entries before, could not send them then, and kept them in the queue "
        "of what it reads again",
        "overdue": "the delay that the producer had asked for was over, and the trace does not show what it waited for",
        "not_read_yet": "the broker had not read so far in the topic",
        "dispatch_rate_limit": "a dispatch rate that somebody had set was used up",
        "ack_holes_limit": "more gaps between acknowledged entries than the cursor keeps, so the broker paused",
        "broker_hung": "a thread of the broker held the locks without which nothing is sent",
        "unexplained": "the trace does not show for what",
    }
)
"""What messages waited for, by the cause."""
