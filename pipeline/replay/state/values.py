"""What numbers in the state stand for: causes of waiting, phases, and the marks of an entry."""

from enum import IntEnum
from typing import Final, NamedTuple

from dispatch_audit.pipeline.replay.state.compiled import compiled

UNLOOKED: Final = -2  # for the owner of a hash: not looked up yet

# `permits_known_by`: what shows the permits of consumers.
BY_FLOWS: Final = 1
BY_SNAPSHOTS: Final = 2

# `ack_sets`: what acknowledgements of parts of a batch do (contract 5.3).
SETS_IGNORED: Final = 0  # the trace says that they are off
SETS_DELETE: Final = 1  # nobody says: an entry is deleted once all its messages are acknowledged; no count is lowered
SETS_COUNT: Final = 2  # counts of unacknowledged messages are lowered as well

# `delays`: whether the broker heeds delayed delivery.
DELAYS_ON: Final = 0
DELAYS_OFF: Final = 1  # a row says so
DELAYS_CLAIMED_OFF: Final = 2  # trace.json says so, and a policy may say otherwise


class _Reset(NamedTuple):
    """The phases of a reset: between its two rows both the old dispatcher and the new one may act."""

    NONE: int = 0
    BEGUN: int = 1  # the old dispatcher may still act
    RESTARTED: int = 2  # the old dispatcher is gone
    ENDED: int = 3  # the second row has come, but the moment of the restart has not


Reset: Final = _Reset()

# `leaving` of a consumer.
LEAVING: Final = 1
CLOSED: Final = 2  # it was closed with the old dispatcher: its rows do not concern the new one

# `claim` of a claimed limit: whether the broker respects it.
CLAIM_STANDS: Final = 0
CLAIM_CONTRADICTED: Final = 1  # the kernel has stopped for it
CLAIM_DISREGARDED: Final = 2  # nothing is judged by it any more


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


class _Marks(NamedTuple):
    """The bits of `marks` of an entry: plain numbers, because numpy is slow with members of an enum."""

    WAITING: int = 1  # published or returned, and not held
    SENT: int = 2  # dispatched at least once since the last restart
    DISPATCH_CONFIRMED: int = 4  # its last dispatch was seen to reach the connection
    ACKED: int = 8  # deleted at the cursor
    DELAYED: int = 16  # published with a time before which it may not be delivered
    MAYBE_SKIPPED: int = 32  # held when an administrator moved mark-delete: the broker may have dropped it
    RETURNED: int = 64  # nacked, timed out, or its holder left, since its last dispatch
    FROM_BEFORE: int = 128  # its last dispatch may be of a read from before a rewind; the cursor reads it once more
    ACKED_WHILE_QUEUED: int = 256  # deleted at the cursor while a read in flight may still send it, legitimately
    NACKED: int = 512  # returned by a redeliver command: the broker replays it without its hash (E1)
    OVERTAKABLE: int = 1024  # waits, but other entries may overtake it: NACKED, DELAYED or MAYBE_SKIPPED
    READ: int = 2048  # at or below the highest position that was dispatched, so the broker has read it
    REPLAYED: int = 4096  # its last dispatch came from the replay queue
    REDELIVERED: int = 16384  # its last dispatch came after its holder had left
    COUNT_LOST: int = 32768  # its redelivery count may be lower: its holder left, lost it or acknowledged a part, first
    SETTLING: int = 65536  # the acknowledgement was received, its effect is not recorded yet
    UNPUBLISHED: int = 131072  # its publish has not been seen
    PASSED: int = 262144  # mark-delete passed it, and no row acknowledges it
    VAGUE: int = 524288  # its holder may have lost it: a row before the dispatch may have taken effect after it
    BEFORE_RESET: int = 1048576  # known before the last seek, unload or transfer, and not sent since
    IN_BACKLOG: int = 2097152  # it waits after entries that the broker has not read, or had not when it began to wait
    DUE: int = 4194304  # DELAYED, and the time of its delivery has come
    IN_TRANSACTION: int = 16777216  # published or acknowledged in one, and not sent since: no row says how it ended
    ACKED_BEFORE: int = 33554432  # acknowledged before the last reset, and not sent since
    NEVER_SENT: int = 67108864  # mark-delete passed it before it was sent to anybody
    CLAIMED_DUE: int = 8388608  # DELAYED, and DUE at once because trace.json alone says that delays are off


Mark: Final = _Marks()

UNSURE: Final = Mark.BEFORE_RESET | Mark.IN_TRANSACTION
"""No row says whether an entry with one of these marks waits: only a dispatch shows that it had to be sent."""
NOT_DUE: Final = Mark.DELAYED | Mark.SENT | Mark.DUE
"""An entry whose marks among these are DELAYED alone may not be delivered yet."""
OVERDUE: Final = Mark.DUE | Mark.SENT
"""An entry whose marks among these are DUE alone is due and was not sent."""
TRACKED: Final = Mark.DELAYED | Mark.SENT
"""An entry whose marks among these are DELAYED alone is in the tracker of delayed messages, not in replay (4.13)."""


@compiled
def is_due(marks: int) -> bool:
    """Whether an entry with these marks may be delivered, as far as its delay is concerned."""
    return marks & NOT_DUE != Mark.DELAYED


@compiled
def is_overdue(marks: int) -> bool:
    """Whether the time has come at which a delayed entry with these marks is delivered, and it was not sent."""
    return marks & OVERDUE == Mark.DUE


@compiled
def is_tracked(marks: int) -> bool:
    """Whether an entry with these marks is in the tracker of delayed messages."""
    return marks & TRACKED == Mark.DELAYED
