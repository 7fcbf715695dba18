"""A consumer as the broker sees it: permits, unacknowledged messages, pending entries (contract 3.3, 4.8, 4.14)."""

from math import ceil


class Consumer:
    """One consumer object; a client that comes back is another one.

    Attributes:
        number: its number in the trace.
        name: the name that the client gave.
        client: the number of its client.
        permits: messages that it may be sent; negative after a batch that was larger.
        side_permits: permits that were granted while it was blocked.
        unacked: messages sent and not acknowledged, as the broker counts them.
        blocked: whether it reached `unacked_max` and has not come down to half of it.
        pending: the entries that it holds, with their hashes.
        closed: whether it has left.
        messages_per_entry: the broker's moving average; 0 before the first send.
        joined_at: what a policy notes of the moment of its join.
    """

    __slots__ = (
        "blocked",
        "client",
        "closed",
        "joined_at",
        "messages_per_entry",
        "name",
        "number",
        "pending",
        "permits",
        "side_permits",
        "unacked",
        "unacked_max",
    )

    def __init__(self, number: int, name: str, client: int, unacked_max: int) -> None:
        """A consumer that has just joined.

        Args:
            number: its number in the trace.
            name: the name that the client gave.
            client: the number of its client.
            unacked_max: `maxUnackedMessagesPerConsumer`; 0: no limit.
        """
        self.number = number
        self.name = name
        self.client = client
        self.unacked_max = unacked_max
        self.permits = 0
        self.side_permits = 0
        self.unacked = 0
        self.blocked = False
        self.pending: dict[int, int] = {}
        self.closed = False
        self.messages_per_entry = 0.0
        self.joined_at = -1

    def available(self) -> int:
        """The entries that it may be sent now (contract 4.8)."""
        permits = self.permits
        if permits <= 0:
            return 0
        if not self.unacked_max:
            return permits
        room = self.unacked_max - self.unacked
        if room <= 0:
            return 0
        if self.messages_per_entry > 1:
            room = ceil(room / round(self.messages_per_entry))
        return min(permits, room)

    def flow(self, permits: int) -> bool:
        """Takes permits; returns whether they count now, or only when the consumer is no longer blocked."""
        if self.unacked_max and self.unacked >= self.unacked_max:
            self.blocked = True
        if self.blocked:
            self.side_permits += permits
            return False
        self.permits += permits
        return True

    def sent(self, entries: int, messages: int) -> None:
        """Charges what was sent."""
        self.permits -= messages
        self.unacked += messages
        per_entry = messages / entries
        before = self.messages_per_entry or per_entry
        self.messages_per_entry = before * 0.9 + per_entry * 0.1
        if self.unacked_max and self.unacked >= self.unacked_max:
            self.blocked = True

    def settled(self, messages: int) -> bool:
        """Lowers the unacknowledged messages; returns whether it is to be unblocked."""
        self.unacked -= messages
        return self.blocked and (not self.unacked_max or self.unacked * 2 <= self.unacked_max)

    def unblock(self) -> int:
        """Ends the blocking; returns the permits that count from now on."""
        self.blocked = False
        permits, self.side_permits = self.side_permits, 0
        self.permits += permits
        return permits
