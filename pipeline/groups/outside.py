"""Judges traces that were recorded outside of the broker, as far as they allow it; the replay of a dispatcher does not.

A client shows the order of a key's entries at each consumer, and keys at two consumers at one time. Such findings are
shown, but not proven. The broker may send an older entry later with good reason (contract 9.3): its former consumer
left while a replay read was in flight (E7), or a seek, an unload or a reconnect was in between (E3, E9). A client sees
none of these, but the application sees the result.

Only entries with a recorded key are compared. A recorder leaves the key out if it proves nothing: messages of a batch
are routed by the key of the batch, and receives that overlap in several threads have no order.

Source: docs/RECORDING_CLIENTS.md; `dispatch_audit.pipeline.contract.recorded_by`.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dispatch_audit.pipeline.contract.recorded_by import CLIENT, OUTSIDE
from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.errors import LimitError
from dispatch_audit.pipeline.groups.columns import Columns, columns_of
from dispatch_audit.pipeline.groups.findings_rows import answers_from_outside, coverage, metrics, refused, violations
from dispatch_audit.pipeline.packing.events import Code, Events
from dispatch_audit.pipeline.packing.gap import Gap
from dispatch_audit.pipeline.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.packing.packed_batch import PackedBatch, merged
from dispatch_audit.pipeline.packing.snapshot import Position, parsed_snapshot
from dispatch_audit.pipeline.recorders.recorders import ONE
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.subscription.completeness import RowsSeen, Unseen
from dispatch_audit.pipeline.replay.verdicts.finding import FindingText, JudgedFinding, RuleFindings, position

# With names in braces.
_OUT_OF_ORDER: Final = FindingText(
    "{consumer} received entry {entry} (seq {seq}) for the first time",
    "the later entry {earlier} of the key had been received (seq {earlier_seq})",
    "after",
    ("not provable: a client sees no seek, unload or reconnect, nor whether another consumer had the entry before",),
)
_TWO_HOLDERS: Final = FindingText(
    "{consumer} received entry {entry} (seq {seq})",
    "{other} had neither acknowledged nor given back entry {earlier} of the key (seq {earlier_seq})",
    "while",
    (
        "not provable: the broker takes entries back from a consumer that loses its connection or exceeds its "
        "acknowledgement timeout, which a client does not see",
    ),
)


class _Receive(NamedTuple):
    """One message that a consumer delivered to the application."""

    seq: int
    ts_us: int
    consumer: int
    position: Position
    key: int
    redelivered: bool


# A receive, and the earlier one of the same key that it contradicts.
_Pair = tuple[_Receive, _Receive]


@dataclass
class _ClientView:
    """Follows the rows of one subscription in one client.

    Its memory grows with the open messages, the different keys of each consumer, and a bit for each entry.
    """

    open_max: int  # the most messages that may be open at one time
    # Receives after a later entry of their key at the same consumer.
    out_of_order: list[_Pair] = field(default_factory=list)
    # Receives while another consumer had not settled an entry of their key.
    two_holders: list[_Pair] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)  # the names of the consumers, by their numbers
    ordered: bool = True  # whether no consumer has allowed out-of-order delivery (E5)
    compared: int = 0  # the number of receives whose order was checked
    checked: int = 0  # the number of receives that were compared with other consumers
    unkeyed: int = 0  # the number of receives without a key
    _lost_until_seq: int = -1

    def __post_init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        # A bit for each entry that a consumer received, by consumer and ledger, which has at most some ten thousand.
        self._seen: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._newest: dict[tuple[int, int], _Receive] = {}  # by consumer and key
        # What was received and not settled, by key; and the key of each such entry.
        self._open: defaultdict[int, dict[Position, _Receive]] = defaultdict(dict)
        self._keys: dict[Position, int] = {}

    def feed(self, events: Events, membership: Sequence[MembershipEvent], gaps: Sequence[Gap]) -> None:
        """Takes the next rows, and the gaps among them, in the order of seq.

        Raises:
            LimitError: more messages are open than the limit allows.
        """
        for row in membership:
            if row.name:
                self.names[row.consumer] = row.name
            self.ordered &= not row.out_of_order
        ahead = deque(gaps)
        names = ("code", "seq", "ts_us", "consumer", "ledger", "entry", "murmur", "key_id", "word")
        rows = zip(*(getattr(events, name).tolist() for name in names), strict=True)
        for code, seq, ts_us, consumer, ledger, entry, murmur, key, word in rows:
            lost = seq <= self._lost_until_seq
            while ahead and ahead[0].seq <= seq:
                lost, self._lost_until_seq = True, max(self._lost_until_seq, ahead.popleft().until_seq)
            # After a gap rows that would settle open entries, or that lie between two receives, may be missing; after a
            # reset everything may be sent again, to other consumers (E3).
            if lost or code in (Code.RESET_START, Code.RESET_END):
                self._forget()
            position = (ledger, entry)
            if code == Code.DISPATCH_END and murmur < 0:
                self.unkeyed += 1
            elif code == Code.DISPATCH_END and self.ordered:
                self._received(_Receive(seq, ts_us, consumer, position, key, word > 0))
            elif code in (Code.ACK_START, Code.ACK_END):
                self._settled(position)
            elif code == Code.REDELIVER:
                self._settled(position, consumer)
            elif code in (Code.REDELIVER_ALL, Code.LEAVE_START, Code.LEAVE_END):
                for held in [*self._keys]:
                    self._settled(held, consumer)

    @property
    def open(self) -> int:
        """The number of messages that were received and not settled."""
        return len(self._keys)

    def _received(self, receive: _Receive) -> None:
        self.checked += 1
        of_key = self._open[receive.key]
        other = next((held for held in of_key.values() if held.consumer != receive.consumer), None)
        if other is not None:
            self.two_holders.append((receive, other))
        # The broker sends an entry to another consumer only after it took it from the former one.
        of_key.pop(receive.position, None)
        of_key[receive.position] = receive
        self._keys[receive.position] = receive.key
        if self.open > self.open_max:
            raise LimitError(
                f"more than {self.open_max} received messages are open at seq {receive.seq}",
                "raise limits.open_entries_max",
            )
        ledger, entry = receive.position
        seen, bit = self._seen[receive.consumer, ledger], 1 << entry
        self._seen[receive.consumer, ledger] = seen | bit
        if seen & bit or receive.redelivered:
            return
        self.compared += 1
        newest = self._newest.get((receive.consumer, receive.key))
        if newest is None or newest.position < receive.position:
            self._newest[receive.consumer, receive.key] = receive
        else:
            self.out_of_order.append((receive, newest))

    def _settled(self, position: Position, consumer: int | None = None) -> None:
        """Notes that an entry was acknowledged, or that a given consumer returned it."""
        of_key = self._open[self._keys[position]] if position in self._keys else {}
        if position in of_key and consumer in (None, of_key[position].consumer):
            del of_key[position], self._keys[position]


def outside_tables(
    batches: Iterable[PackedBatch], config: ReplayConfig, findings_per_rule_max: int
) -> Iterator[tuple[str, Columns]]:
    """Yields the name of a table and columns with rows of it.

    Args:
        batches: all packed batches of the subscription, ordered by their first seq.
        config: the configuration of the replay.
        findings_per_rule_max: how many findings of each rule become rows; `ALL`: every one.

    Raises:
        LimitError: more messages are open at one time than the limit allows.
    """
    view, counted = _ClientView(config.open_entries_max), RowsSeen(config.skew_us)
    unused, listed = 0, set[int]()
    for part in merged(batches):
        counted.add(part)
        if config.recorded_by == CLIENT:
            view.feed(part.events, part.membership, part.gaps)
        for found in map(parsed_snapshot, part.snapshots):
            listed |= {one.consumer for one in (*found.as_before, *found.consumers)}
        unused += len(part.contradicted)
        yield "refused", refused([*part.contradicted, *part.repeated], ONE)
    shown: tuple[tuple[RuleName, int, list[_Pair], FindingText], ...] = (
        ("first_delivery_order", view.compared, view.out_of_order, _OUT_OF_ORDER),
        ("single_holder", view.checked, view.two_holders, _TWO_HOLDERS),
    )
    findings = [
        RuleFindings(
            rule,
            checked,
            {"not_provable": len(pairs)},
            [_finding(view, *pair, words) for pair in pairs[: findings_per_rule_max or None]],
        )
        for rule, checked, pairs, words in shown
        if rule in OUTSIDE[config.recorded_by].shown and rule in config.profile.rules
    ]
    # Only compared receives are judged rows; acknowledgements only settle entries.
    unseen = Unseen(
        rows_censored=counted.rows - view.checked - unused - view.unkeyed,
        dispatches_without_key=view.unkeyed,
        censored_never_acknowledged=view.open,
        consumers_by_snapshot_only=len(listed),
    )
    covered = coverage(counted, unused, unseen, 0) | answers_from_outside(counted.dispatches)
    yield "violations", violations(findings, findings_per_rule_max)
    yield "metrics", columns_of(metrics(config.profile.rules, findings, covered["completeness"]))
    yield "coverage", columns_of([covered])


def _finding(view: _ClientView, receive: _Receive, earlier: _Receive, text: FindingText) -> JudgedFinding:
    entry, before = position(*receive.position), position(*earlier.position)
    consumer, other = (f"{view.names.get(one.consumer)} (consumer {one.consumer})" for one in (receive, earlier))
    words = {
        "consumer": consumer,
        "other": other,
        "entry": entry,
        "seq": receive.seq,
        "earlier": before,
        "earlier_seq": earlier.seq,
    }
    return JudgedFinding(
        severity="not_provable",
        seq=receive.seq,
        ts_us=receive.ts_us,
        explanation=text._replace(what=text.what.format_map(words), against=text.against.format_map(words)),
        evidence=[f"seq {earlier.seq}: {other} received {before}", f"seq {receive.seq}: {consumer} received {entry}"],
        key_id=receive.key,
        ledger_id=receive.position[0],
        entry_id=receive.position[1],
        consumer=receive.consumer,
        consumer_name=view.names.get(receive.consumer),
        other_consumer=earlier.consumer,
        other_consumer_name=view.names.get(earlier.consumer),
        detail={"other_position": before, "other_seq": earlier.seq, "same_key": True},
    )
