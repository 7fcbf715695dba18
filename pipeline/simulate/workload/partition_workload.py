"""The workload of one topic partition, resolved: everything that is published and done, with its time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dispatch_audit.pipeline.assignment.ranges.membership_change import DeclaredRanges
from dispatch_audit.pipeline.simulate.clients.client import ClientSettings

ActionKind = Literal[
    "join", "close", "crash", "hang", "resume", "processing", "expire", "skip", "clear", "seek", "unload", "settings"
]
"""What happens: `close` acknowledges what is done first, `crash` does not; `processing` changes a processing time.

`settings`: policies of the topic change settings of the broker.
"""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that happens besides publishing.

    Attributes:
        at_us: its time, microseconds from the start.
        kind: what happens.
        client: the number of the client that it happens to; -1: to the subscription.
        amount: of `processing` the new time in microseconds; of `expire` and `skip` how many
            unacknowledged entries mark-delete passes; of `seek` the entry to go to.
        settings: of `settings` broker.conf names to their new values; None: what broker.conf says.
    """

    at_us: int
    kind: ActionKind
    client: int = -1
    amount: int = 0
    settings: Mapping[str, int | bool | None] | None = None


@dataclass(frozen=True, slots=True)
class ClientPlan:
    """A client of the workload.

    Attributes:
        name: the name that its consumers have.
        settings: of the client.
        threads: messages that it processes at a time; 0: one of each key; -1: all at once.
        service_us: the processing time of an entry that has none of its own.
        ranges: the ranges that it declares (STICKY).
    """

    name: str
    settings: ClientSettings = field(default_factory=ClientSettings)
    threads: int = 1
    service_us: int = 1000
    ranges: DeclaredRanges | None = None


@dataclass(frozen=True, slots=True)
class PartitionWorkload:
    """What is published to one partition and who consumes it.

    Attributes:
        topic: the full name of the partition's topic.
        subscription: the subscription.
        publish_us: when each of n entries is published, ascending, microseconds from the start.
        keys: the number of the key of each entry.
        key_bytes: the keys by their number.
        clients: the clients, by their number.
        actions: in the order of their time.
        end_us: the simulation ends at the latest then.
        start_us: wall clock of the start, microseconds since 1970 UTC.
        messages: the messages in each entry; None: one in each.
        sizes: the bytes of each entry; None: unknown.
        service_us: the processing time of each entry, -1 where that of the client applies; None: everywhere.
        positions: ledger and entry id of each entry; None: (1, 0), (1, 1) and so on.
        reconnects: whether clients that a seek or an unload disconnects come back by themselves; in a recording each
            connection is a client of its own.
        deliver_at_us: when each entry is to be delivered at the earliest, -1: at once; None: everywhere.
        allow_out_of_order: whether the consumers allow out-of-order delivery.
    """

    topic: str
    subscription: str
    publish_us: Sequence[int]
    keys: Sequence[int]
    key_bytes: Sequence[bytes]
    clients: Sequence[ClientPlan]
    actions: Sequence[Action]
    end_us: int
    start_us: int = 0
    messages: Sequence[int] | None = None
    sizes: Sequence[int] | None = None
    service_us: Sequence[int] | None = None
    positions: Sequence[tuple[int, int]] | None = None
    reconnects: bool = True
    deliver_at_us: Sequence[int] | None = None
    allow_out_of_order: bool = False

    def __len__(self) -> int:
        return len(self.publish_us)
