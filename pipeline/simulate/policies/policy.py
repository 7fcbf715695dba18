"""The interface of policies: the decisions in which dispatchers of different versions and proposals differ."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from dispatch_audit.pipeline.simulate.state.consumer import Consumer
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState


class Grouped(NamedTuple):
    """The result of grouping a read.

    Attributes:
        by_consumer: the entries to send, by the number of the consumer, ascending within each.
        look_ahead: whether the next read should skip replay once and be a normal read.
        diverted: entries that went elsewhere, neither to a consumer nor to replay.
    """

    by_consumer: dict[int, list[int]]
    look_ahead: bool
    diverted: int = 0


class DispatcherPolicy(ABC):
    """The rules of a dispatcher. It changes replay only in `group`, where it puts what it refuses.

    Attributes:
        backs_off: whether a read that led to nothing is repeated after a backoff, not at once.
        holds: entries that the policy keeps outside of cursor and replay until they are acknowledged.
    """

    backs_off = True

    def __init__(self, state: DispatcherState) -> None:
        self.state = state
        self.holds: set[int] = set()

    @abstractmethod
    def replay_candidates(self, entries_max: int) -> list[int]:
        """The entries of replay that a replay read takes, ascending."""

    @abstractmethod
    def normal_read_allowed(self) -> bool:
        """Whether a normal read may start."""

    def read_cycle(self) -> None:
        """Runs in each turn of the read loop, before anything is read."""
        return

    def take_back(self, position: int) -> None:
        """Takes back one of `holds`, which a consumer gave back."""
        return

    def normal_read_max(self, entries_max: int) -> int:
        """How many entries a normal read may take."""
        return entries_max

    @abstractmethod
    def group(self, entries: list[int], replay_read: bool) -> Grouped:
        """Chooses the consumer of each entry of a read, and puts the others into replay."""

    def first_to_replay(self) -> int | None:
        """The entry that is compared when a read begins and when it is dispatched (contract 4.10)."""
        return self.state.replay.first

    def replay_read_started(self, entries: list[int]) -> None:
        """Notes that a replay read of these entries is in flight."""
        return

    def refuses(self, consumer: Consumer, position: int) -> bool:
        """Whether an entry must not be sent although it was grouped: the race guard (contract 3.7)."""
        return False

    @abstractmethod
    def joined(self, consumer: Consumer, before: dict[int, int]) -> None:
        """Takes a consumer that has joined.

        Args:
            consumer: the newcomer; the selector has it.
            before: the owner before the change, of each hash with pending entries.
        """

    @abstractmethod
    def left(self, consumer: Consumer, before: dict[int, int]) -> bool:
        """Takes the leave of a consumer that was not the last one, and whose entries are in replay; see `joined`.

        Returns:
            Whether that is a reason to read, even if it held nothing.
        """

    def removed_pending(self, consumer: Consumer, sticky_hash: int, closing: bool = False) -> None:
        """Notes that a pending entry of a consumer was settled."""
        return

    def start_batch(self) -> None:
        """Holds notifications back, because several pending entries are about to be removed at once."""
        return

    def end_batch(self) -> None:
        """Sends the notifications that `start_batch` held back."""
        return

    def cleared(self) -> None:
        """Forgets what depends on consumers, because the last one has left."""
        return

    def mark_delete_moved(self) -> bool:
        """Notes that mark-delete has moved; returns whether that is a reason to read."""
        return False

    def sought(self) -> None:
        """Notes that the cursor was reset to a position, for which all consumers were closed."""
        return

    def sent(self, entries: list[int]) -> None:
        """Notes that entries were sent, for the first time or again."""
        return

    def statistics(self, consumer: Consumer) -> dict[str, object]:
        """What the broker's statistics report of a consumer besides its counters (contract 7)."""
        return {}

    def unfinished(self) -> bool:
        """Whether entries wait outside of cursor and replay."""
        return False

    def normal_reads_stop(self) -> bool:
        """Whether the unacknowledged limit of the subscription stops normal reads; replay reads ignore it (4.2)."""
        return self.state.blocked_on_unacked
