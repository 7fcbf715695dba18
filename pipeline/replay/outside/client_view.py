"""Checks, as a client saw it, the order of a key's entries at each consumer, and keys at two consumers at one time.

Findings are shown, but not proven. The broker may send an older entry later with good reason (contract 9.3): its former
consumer left while a replay read was in flight (E7), or a seek, an unload or a reconnect was in between (E3, E9). A
client sees none of these, but the application sees the result.

Only entries with a recorded key are compared. A recorder leaves the key out if it proves nothing: messages of a batch
are routed by the key of the batch, and receives that overlap in several threads have no order.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dispatch_audit.pipeline.errors import LimitError
from dispatch_audit.pipeline.replay.packing.events import Code, Events
from dispatch_audit.pipeline.replay.packing.gap import Gap
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.replay.packing.snapshot import Position

Key = int


class Receive(NamedTuple):
    """One message that a consumer delivered to the application."""

    seq: int
    ts_us: int
    consumer: int
    position: Position
    key: Key
    redelivered: bool


class Pair(NamedTuple):
    """A receive, and the earlier one of the same key that it contradicts."""

    receive: Receive
    earlier: Receive


class _EntrySet:
    """A set of entries as a bit for each, because a ledger has at most some ten thousand."""

    def __init__(self) -> None:
        self._of_ledger: dict[int, bytearray] = {}

    def add(self, ledger: int, entry: int) -> bool:
        """Adds an entry; returns whether it is new."""
        bits = self._of_ledger.setdefault(ledger, bytearray())
        at, mask = entry >> 3, 1 << (entry & 7)
        if at >= len(bits):
            bits.extend(bytes(at + 1 - len(bits)))
        is_new = not bits[at] & mask
        bits[at] |= mask
        return is_new


@dataclass
class ClientView:
    """Follows the rows of one subscription in one client.

    Its memory grows with the open messages, the different keys of each consumer, and a bit for each entry.
    """

    open_max: int  # the most messages that may be open at one time
    # Receives after a later entry of their key at the same consumer.
    out_of_order: list[Pair] = field(default_factory=list)
    # Receives while another consumer had not settled an entry of their key.
    two_holders: list[Pair] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)  # the names of the consumers, by their numbers
    ordered: bool = True  # whether no consumer has allowed out-of-order delivery (E5)
    compared: int = 0  # the number of receives whose order was checked
    checked: int = 0  # the number of receives that were compared with other consumers
    unkeyed: int = 0  # the number of receives without a key
    _seen: dict[int, _EntrySet] = field(default_factory=dict)
    _newest: dict[tuple[int, Key], Receive] = field(default_factory=dict)
    _open: dict[Key, dict[Position, Receive]] = field(default_factory=dict)
    _keys: dict[Position, Key] = field(default_factory=dict)
    _lost_until_seq: int = -1

    def feed(self, events: Events, membership: Sequence[MembershipEvent], gaps: Sequence[Gap] = ()) -> None:
        """Takes the next rows, and the gaps among them, in the order of seq.

        Raises:
            LimitError: more messages are open than the limit allows.
        """
        for row in membership:
            if row.name:
                self.names[row.consumer] = row.name
            self.ordered &= not row.out_of_order
        ahead = deque(gaps)
        for code, seq, ts_us, consumer, ledger, entry, murmur, key, word in _rows(events):
            lost = seq <= self._lost_until_seq
            while ahead and ahead[0].seq <= seq:
                lost, self._lost_until_seq = True, max(self._lost_until_seq, ahead.popleft().until_seq)
            if lost:
                # Rows that would settle open entries, or that lie between two receives, may be missing.
                self._forget()
            position = (ledger, entry)
            if code == Code.DISPATCH_END:
                if murmur < 0:
                    self.unkeyed += 1
                    continue
                self._received(Receive(seq, ts_us, consumer, position, key, word > 0))
            elif code in (Code.ACK_START, Code.ACK_END):
                self._settled(position)
            elif code == Code.REDELIVER:
                self._settled(position, consumer)
            elif code in (Code.REDELIVER_ALL, Code.LEAVE_START, Code.LEAVE_END):
                self._settled_all(consumer)
            elif code in (Code.RESET_START, Code.RESET_END):
                # Everything may be sent again, to other consumers (E3).
                self._forget()

    @property
    def open(self) -> int:
        """The number of messages that were received and not settled."""
        return sum(map(len, self._open.values()))

    def _forget(self) -> None:
        self._seen, self._newest, self._open, self._keys = {}, {}, {}, {}

    def _received(self, receive: Receive) -> None:
        if not self.ordered:
            return
        self.checked += 1
        of_key = self._open.setdefault(receive.key, {})
        other = next((held for held in of_key.values() if held.consumer != receive.consumer), None)
        if other is not None:
            self.two_holders.append(Pair(receive, other))
        # The broker sends an entry to another consumer only after it took it from the former one.
        of_key.pop(receive.position, None)
        of_key[receive.position] = receive
        self._keys[receive.position] = receive.key
        if len(self._keys) > self.open_max:
            raise LimitError(
                f"more than {self.open_max} received messages are open at seq {receive.seq}",
                "raise limits.open_entries_max",
            )
        is_new = self._seen.setdefault(receive.consumer, _EntrySet()).add(*receive.position)
        if receive.redelivered or not is_new:
            return
        self.compared += 1
        newest = self._newest.get((receive.consumer, receive.key))
        if newest is None or newest.position < receive.position:
            self._newest[receive.consumer, receive.key] = receive
        else:
            self.out_of_order.append(Pair(receive, newest))

    def _settled(self, position: Position, consumer: int | None = None) -> None:
        """Notes that an entry was acknowledged, or that a given consumer returned it."""
        key = self._keys.get(position)
        if key is None:
            return
        of_key = self._open.get(key, {})
        if position in of_key and consumer in (None, of_key[position].consumer):
            del of_key[position]
        if position not in of_key:
            del self._keys[position]
        if not of_key:
            self._open.pop(key, None)

    def _settled_all(self, consumer: int) -> None:
        held = (receive for of_key in self._open.values() for receive in of_key.values())
        for position in [receive.position for receive in held if receive.consumer == consumer]:
            self._settled(position, consumer)


def _rows(events: Events) -> Iterator[tuple[int, ...]]:
    names = ("code", "seq", "ts_us", "consumer", "ledger", "entry", "murmur", "key_id", "word")
    return zip(*(getattr(events, name).tolist() for name in names), strict=True)
