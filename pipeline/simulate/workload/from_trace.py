"""Takes a workload from a recorded trace: what was published when, who joined and left, how long messages took.

The broker's part is left out: which consumer was sent what, and when. By default a client takes each message as soon as
it arrives, and keeps it for as long as in the recording. If flow rows show that it takes fewer than it is sent, it
processes that many at a time.

Source: TRACE_FORMAT, "Columns".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapreplace
from statistics import median
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dispatch_audit.pipeline.contract.profile import Profile
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.simulate.clients.client import ClientSettings
from dispatch_audit.pipeline.simulate.state.broker_settings import Timing
from dispatch_audit.pipeline.simulate.workload.partition_workload import Action, ClientPlan, PartitionWorkload
from dispatch_audit.udfs.sticky_key_hash import keyless_keys

COLUMNS: Final = (
    "event",
    "phase",
    "ts_us",
    "topic",
    "subscription",
    "ledger_id",
    "entry_id",
    "batch_size",
    "key",
    "key_source",
    "producer_name",
    "sequence_id",
    "size_bytes",
    "broker",
    "consumer",
    "consumer_name",
    "positions",
    "permits",
    "ranges",
    "reason",
    "allow_out_of_order",
)
"""The columns that a workload is taken from."""

_SETTLE_US: Final = 5_000_000
_RECEIVER_QUEUE: Final = 1000
_SERVICE_US: Final = 1000
# Such a leave is part of an unload, which closes all consumers at once.
_CLOSED_BY_BROKER: Final = "closed_by_broker"
# The reasons of resets that a simulation repeats.
_UNLOADS: Final = frozenset({"unload", "transfer", "other_type"})
# Fewer flows after the first do not show how a client takes its messages.
_FLOWS_MIN: Final = 5
_UNKNOWN: Final = -1

Position = tuple[int, int]
Row = Mapping[str, Any]
Who = tuple[str, int]
"""A consumer: its recorder, of which each has numbers of its own, and its number."""


@dataclass(slots=True)
class _Entry:
    publish_us: int
    row: Row
    dispatched_us: int | None = None
    acked: bool = False
    service_us: int = _UNKNOWN


@dataclass(slots=True)
class _Consumer:
    name: str
    ranges: tuple[tuple[int, int], ...] = ()
    joined_us: int | None = None
    left_us: int | None = None
    reason: str = ""
    receiver_queue: int | None = None
    sent: int = 0
    granted: int = 0
    flows: int = 0
    in_process: int = 0
    outstanding: int = 0
    acked: list[tuple[int, int, _Entry]] = field(default_factory=list)
    delays_us: list[int] = field(default_factory=list)

    @property
    def threads(self) -> int:
        """The messages that it processes at a time, -1 for all that it is sent: by its flows."""
        if self.flows < _FLOWS_MIN or self.in_process * 2 >= self.outstanding:
            return -1
        return max(round(self.in_process / self.flows), 1)


def not_simulated(rows: pa.Table) -> str | None:
    """Why no workload can be taken from the rows of a subscription; None: one can be."""
    events = set(rows["event"].unique().to_pylist())
    missing = [what for what in ("publish", "join") if what not in events]
    if missing:
        return f"the trace has no {' and no '.join(missing)} of it"
    resets = rows.filter(pc.equal(rows["event"], "reset"))
    moved = sorted({reason or "a reset" for reason in resets["reason"].to_pylist()} - _UNLOADS)
    return f"the cursor was moved by {' and '.join(moved)}, and no row has the target" if moved else None


def workload_from(rows: pa.Table, profile: Profile, timing: Timing) -> PartitionWorkload:
    """The workload of one subscription on one partition.

    Args:
        rows: its rows and the publishes of its topic in the order of time, with `COLUMNS`.
        profile: of the recorded broker: the substitute for the key of a keyless message.
        timing: the times that the simulation will assume, which a recorded delay contains.

    Raises:
        UsageError: `not_simulated` has a reason.
    """
    reason = not_simulated(rows)
    if reason is not None:
        raise UsageError(reason, "simulate another subscription, or record this one from its first join on")
    entries, consumers, actions = _collect(rows.select(COLUMNS).to_pylist(), timing)
    positions = sorted(entries)
    start_us = min(rows["ts_us"][0].as_py(), entries[positions[0]].publish_us) - 1000
    found = [entries[position] for position in positions]
    keys = _keys([entry.row for entry in found], profile)
    names = sorted(set(keys))
    number_of = {name: number for number, name in enumerate(names)}
    numbers = sorted(consumers)
    return PartitionWorkload(
        topic=rows["topic"][0].as_py(),
        subscription=next(name for name in rows["subscription"].to_pylist() if name),
        publish_us=_ascending([entry.publish_us - start_us for entry in found]),
        keys=[number_of[key] for key in keys],
        key_bytes=names,
        clients=[_plan(consumers[number], consumers) for number in numbers],
        actions=sorted(
            [*_lives(numbers, consumers, start_us), *_shifted(actions, start_us)], key=lambda action: action.at_us
        ),
        end_us=rows["ts_us"][-1].as_py() - start_us + _SETTLE_US,
        start_us=start_us,
        messages=[entry.row["batch_size"] or 1 for entry in found],
        sizes=[entry.row["size_bytes"] or 0 for entry in found],
        service_us=[entry.service_us for entry in found],
        positions=positions,
        reconnects=False,
        allow_out_of_order=any(rows["allow_out_of_order"].to_pylist()),
    )


def _collect(rows: Sequence[Row], timing: Timing) -> tuple[dict[Position, _Entry], dict[Who, _Consumer], list[Action]]:
    entries: dict[Position, _Entry] = {}
    consumers: dict[Who, _Consumer] = {}
    actions: list[Action] = []
    early: dict[Position, int] = {}
    for row in rows:
        event, starts, who = row["event"], row["phase"] == "start", _who(row)
        position = (row["ledger_id"], row["entry_id"])
        if event == "publish":
            # The rows of a dispatch may come before that of the publish.
            before = early.get(position)
            entries.setdefault(position, _Entry(min(row["ts_us"], before or row["ts_us"]), row, before))
        elif event == "dispatch" and starts:
            early.setdefault(position, row["ts_us"])
            if position in entries:
                entries[position].dispatched_us = row["ts_us"]
            if who in consumers:
                consumers[who].sent += 1
        elif event == "ack" and starts:
            _acknowledge(row, entries, consumers)
        elif event == "join" and row["consumer"] is not None:
            if _crashed(row, consumers):
                actions.append(Action(row["ts_us"], "unload"))
            _join(row, consumers)
        elif who in consumers:
            _of_consumer(row, consumers[who])
        elif event == "reset" and starts:
            actions.append(Action(row["ts_us"], "unload"))
    for consumer in consumers.values():
        _measure(consumer, timing)
    return entries, consumers, actions


def _who(row: Row) -> Who:
    return row["broker"] or "", row["consumer"]


def _crashed(join: Row, consumers: dict[Who, _Consumer]) -> bool:
    """Whether consumers of another broker were there until a join: that broker is gone, and no row says so."""
    broker, _ = _who(join)
    left = [known for (of, _), known in consumers.items() if of != broker and known.left_us is None]
    for known in left:
        known.left_us, known.reason = join["ts_us"], _CLOSED_BY_BROKER
    return bool(left)


def _join(row: Row, consumers: dict[Who, _Consumer]) -> None:
    known = consumers.setdefault(_who(row), _Consumer(row["consumer_name"] or f"consumer-{row['consumer']}"))
    known.ranges = tuple((part["start"], part["end"]) for part in row["ranges"] or ())
    # The later of two rows: by then the consumer has joined for certain.
    known.joined_us = row["ts_us"]


def _of_consumer(row: Row, consumer: _Consumer) -> None:
    if row["event"] == "leave" and consumer.left_us is None:
        consumer.left_us, consumer.reason = row["ts_us"], row["reason"] or ""
    elif row["event"] == "flow" and consumer.receiver_queue is None:
        # The first Flow of a client is its whole receiver queue (contract 4.14).
        consumer.receiver_queue = row["permits"]
    elif row["event"] == "flow":
        # A later one says how many it has taken out of the queue.
        consumer.granted += row["permits"]
        consumer.flows += 1
        consumer.in_process += max(consumer.granted - len(consumer.acked), 0)
        consumer.outstanding += consumer.sent - len(consumer.acked)


def _acknowledge(row: Row, entries: dict[Position, _Entry], consumers: dict[Who, _Consumer]) -> None:
    for named in row["positions"] or ():
        entry = entries.get((named["ledger_id"], named["entry_id"]))
        if entry is None or entry.dispatched_us is None or named["ack_set"] or entry.acked:
            continue
        entry.acked = True
        if _who(row) in consumers:
            consumers[_who(row)].acked.append((entry.dispatched_us, row["ts_us"], entry))


def _measure(consumer: _Consumer, timing: Timing) -> None:
    """Notes how long each message took that a consumer acknowledged."""
    threads = consumer.threads
    free_us = [0] * max(threads, 1)
    for dispatched_us, acked_us, entry in consumer.acked:
        arrived_us, done_us = dispatched_us + timing.network_us, acked_us - timing.network_us
        begun_us = arrived_us if threads < 0 else max(arrived_us, free_us[0])
        heapreplace(free_us, done_us)
        entry.service_us = max(done_us - begun_us, 0)
        consumer.delays_us.append(entry.service_us)


def _plan(consumer: _Consumer, consumers: Mapping[Who, _Consumer]) -> ClientPlan:
    everybody = [delay for other in consumers.values() for delay in other.delays_us]
    delays = consumer.delays_us or everybody
    settings = ClientSettings(receiver_queue=max(consumer.receiver_queue or _RECEIVER_QUEUE, 1), ack_group_us=0)
    service_us = round(median(delays)) if delays else _SERVICE_US
    return ClientPlan(consumer.name, settings, consumer.threads, service_us, consumer.ranges or None)


def _lives(numbers: Sequence[Who], consumers: Mapping[Who, _Consumer], start_us: int) -> list[Action]:
    """The joins and leaves, and the hangs of consumers that were sent something and never acknowledged anything."""
    actions: list[Action] = []
    for client, number in enumerate(numbers):
        consumer = consumers[number]
        if consumer.joined_us is None:
            continue
        actions.append(Action(consumer.joined_us - start_us, "join", client))
        if consumer.sent and not consumer.delays_us:
            actions.append(Action(consumer.joined_us - start_us, "hang", client))
        if consumer.left_us is not None and consumer.reason != _CLOSED_BY_BROKER:
            closed = consumer.reason == "close_consumer"
            actions.append(Action(consumer.left_us - start_us, "close" if closed else "crash", client))
    return actions


def _shifted(actions: Sequence[Action], start_us: int) -> list[Action]:
    return [Action(action.at_us - start_us, action.kind) for action in actions]


def _ascending(times: Sequence[int]) -> list[int]:
    """The times, each raised to the one before it: positions order entries, but several threads record them."""
    found, latest = [], 0
    for at in times:
        latest = max(latest, at)
        found.append(latest)
    return found


def _keys(rows: Sequence[Row], profile: Profile) -> list[bytes]:
    """The sticky keys, those included that the broker makes up for keyless messages."""
    without = keyless_keys(
        [row["producer_name"] for row in rows], [row["sequence_id"] for row in rows], profile.keyless
    )
    return [
        made if row["key"] is None or row["key_source"] == "none" else row["key"]
        for row, made in zip(rows, without.to_pylist(), strict=True)
    ]
