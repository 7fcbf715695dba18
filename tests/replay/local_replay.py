"""Replays without Spark: rows in Python or a recorded folder, through the product's own `pack`, to findings.

    log = Log()
    log.join(1)
    log.publish(0, LOW)
    log.dispatch(1, 0, LOW)
    assert replayed(log.rows).findings == []

Consumers split the hashes as AutoSplit does (contract 2.3) unless a test asks for something else, because that can
be followed by hand: the first consumer owns everything, the second takes the lower half, the third the lowest quarter.
"""

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from recorded import RECORDINGS, rows_in
from recorded_batches import recorded_batches

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.contract.rules import CLIENT_RULES, NAME_OF
from dispatch_audit.pipeline.groups.replay_rows import PackedRows, packed_rows, replayed_rows
from dispatch_audit.pipeline.groups.replay_rows import recorders_in as recorders_of_packed
from dispatch_audit.pipeline.packing.events import Events, concatenated
from dispatch_audit.pipeline.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.packing.pack import COLUMNS, pack
from dispatch_audit.pipeline.packing.packed_batch import Group, PackedBatch, merged
from dispatch_audit.pipeline.packing.repeated_rows import Refused
from dispatch_audit.pipeline.recorders.recorders import Recorders
from dispatch_audit.pipeline.replay.blocking.capacity_samples import Sample
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.membership.history import PlacedEpoch
from dispatch_audit.pipeline.replay.settings.broker_limits import Thresholds
from dispatch_audit.pipeline.replay.state.output import ENDINGS
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.dispatch_findings import dispatch_findings, judged
from dispatch_audit.pipeline.replay.verdicts.finding import FindingVerdict
from dispatch_audit.pipeline.replay.verdicts.reported_findings import counter_findings, mismatch_findings
from dispatch_audit.pipeline.replay.verdicts.stalls.stall_findings import stuck_findings
from dispatch_audit.pipeline.replay.verdicts.stalls.standstill import standstills

TOPIC: Final = "persistent://public/default/orders"
GROUP: Final = Group(TOPIC, "ks")
RANGES: Final[Mapping[str, object]] = {"subscriptionKeySharedUseConsistentHashing": False}
AUTO_SPLIT: Final[Mapping[str, object]] = {**RANGES, "entryFilterNames": ""}
"""No filter may have rejected what is never sent, unless a test says only `RANGES`."""
SKEW_US: Final = 10_000
WRITTEN: Final = frozenset({"ack", "leave"})
"""What the recorder of a short log writes, even if the log has no row of a kind: a trace of thousands has some."""
STEP_US: Final = 1_000
"""Between two rows of a `Log`, unless a test sets `Log.now_us`."""

# Two keys of each quarter of the AutoSplit hashes 0..65535 (contract 1.6).
LOWEST: Final = b"key-1"  # hash 5536
LOW: Final = b"key-2"  # 21772
HIGH: Final = b"order-42"  # 41358
HIGHEST: Final = b"key-0"  # 63679

Columns: TypeAlias = dict[str, Any]
Tables: TypeAlias = dict[str, list[Columns]]
Position: TypeAlias = "int | tuple[int, int]"
"""An entry of ledger 1, or a ledger and an entry."""

_POSITION = pa.struct([("ledger_id", pa.int64()), ("entry_id", pa.int64()), ("ack_set", pa.list_(pa.int64()))])
_RANGE = pa.struct([("start", pa.int32()), ("end", pa.int32())])
NO_RATES: Final = {
    f"dispatchThrottlingRate{scope}In{unit}": 0
    for scope in ("", "PerTopic", "PerSubscription")
    for unit in ("Msg", "Byte")
}
_TYPES: Mapping[str, pa.DataType] = {
    **dict.fromkeys(COLUMNS, pa.string()),
    **dict.fromkeys(
        ("seq", "ts_us", "ledger_id", "entry_id", "sequence_id", "publish_time_ms", "deliver_at_ms", "consumer"),
        pa.int64(),
    ),
    "batch_size": pa.int32(),
    "redelivery_count": pa.int32(),
    "permits": pa.int32(),
    "key": pa.binary(),
    "positions": pa.list_(_POSITION),
    "allow_out_of_order": pa.bool_(),
    "ranges": pa.list_(_RANGE),
    "batch_keys": pa.list_(pa.string()),
    "sticky_hash": pa.int32(),
    "seq_end": pa.int64(),
    "dropped": pa.int64(),
    "dropped_events": pa.list_(pa.string()),
    "settings": pa.map_(pa.string(), pa.string()),
    "sources": pa.map_(pa.string(), pa.string()),
    "seq_begin": pa.int64(),
    "begun_us": pa.int64(),
}


def _at(position: Position) -> tuple[int, int]:
    return (1, position) if isinstance(position, int) else position


@dataclass
class Log:
    """Rows of one subscription, numbered and timed as they are written.

    What a recorder writes twice, at the start and at the end of an effect, is written twice here and the method
    returns the seq of the first; `phases` leaves one side out.

    Attributes:
        rows: the rows so far.
        now_us: time of the next row.
        step_us: by how much it moves on with each row.
    """

    rows: list[Columns] = field(default_factory=list)
    now_us: int = 1_000_000_000
    step_us: int = STEP_US
    topic: str = TOPIC
    subscription: str = GROUP.subscription

    def write(self, event: str, **columns: object) -> int:
        """Any row; returns its seq."""
        seq = len(self.rows) + 1
        about = {} if event == "publish" else {"subscription": self.subscription}
        self.rows.append({"event": event, "seq": seq, "ts_us": self.now_us, "topic": self.topic, **about, **columns})
        self.now_us += self.step_us
        return seq

    def _write_phases(self, event: str, phases: str, **columns: object) -> int:
        first, *_ = [self.write(event, phase=phase, **columns) for phase in phases.split()]
        return first

    def publish(self, position: Position, key: bytes | None = LOW, **columns: object) -> int:
        ledger, entry = _at(position)
        return self.write("publish", ledger_id=ledger, entry_id=entry, **{"key": key, "batch_size": 1, **columns})

    def dispatch(
        self,
        consumer: int,
        position: Position,
        key: bytes | None = LOW,
        *,
        phases: str = "start end",
        batch_size: int = 1,
        count: int | None = None,
    ) -> int:
        """Sends an entry; `count` is its redelivery count."""
        ledger, entry = _at(position)
        where: Columns = {"consumer": consumer, "ledger_id": ledger, "entry_id": entry, "redelivery_count": count}
        return self._write_phases("dispatch", phases, **where, key=key, batch_size=batch_size)

    def ack(
        self,
        consumer: int,
        *positions: Position,
        phases: str = "start end",
        ack_type: str = "individual",
        ack_set: Sequence[int] | None = None,
        transaction: str | None = None,
    ) -> int:
        named = [dict(zip(("ledger_id", "entry_id", "ack_set"), (*_at(p), ack_set), strict=True)) for p in positions]
        of_command: Columns = {"positions": named, "ack_type": ack_type, "transaction": transaction}
        return self._write_phases("ack", phases, consumer=consumer, **of_command)

    def redeliver(self, consumer: int, *positions: Position) -> int:
        """Gives back the positions; all that the consumer holds if none is named."""
        named = [dict(zip(("ledger_id", "entry_id", "ack_set"), (*_at(p), None), strict=True)) for p in positions]
        return self.write("redeliver", consumer=consumer, positions=named)

    def join(
        self,
        consumer: int,
        *,
        phases: str = "start end",
        name: str | None = None,
        ranges: Sequence[tuple[int, int]] = (),
        allow_out_of_order: bool = False,
    ) -> int:
        """A consumer called `c<number>` unless it has a name; STICKY if it declares ranges."""
        return self._write_phases(
            "join",
            phases,
            consumer=consumer,
            consumer_name=name or f"c{consumer}",
            key_shared_mode="STICKY" if ranges else "AUTO_SPLIT",
            allow_out_of_order=allow_out_of_order,
            ranges=[{"start": start, "end": end} for start, end in ranges],
        )

    def leave(self, consumer: int, *, phases: str = "start end", reason: str | None = None) -> int:
        return self._write_phases("leave", phases, consumer=consumer, reason=reason)

    def reset(self, reason: str, *, phases: str = "start end") -> int:
        return self._write_phases("reset", phases, reason=reason)

    def flow(self, consumer: int, permits: int) -> int:
        return self.write("flow", consumer=consumer, permits=permits)

    def stats(self, mark_delete_position: str) -> int:
        return self.snapshot(mark_delete_position=mark_delete_position)

    def snapshot(self, *consumers: Mapping[str, object], **values: object) -> int:
        """What the broker says of itself, under the names of TRACE_FORMAT; what is not given is absent."""
        listed = {"consumers": consumers} if consumers else {}
        return self.write("stats", snapshot=json.dumps({**listed, **values}))


def one_waiting() -> Log:
    """Consumers 1 and 2 have permits; 1 was sent an entry of HIGH, and 1:1 of LOW, which 2 owns, waits."""
    log = Log()
    for consumer in (1, 2):
        log.join(consumer)
        log.flow(consumer, 1_000)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    log.publish(1, LOW)
    return log


def batch_sent_again() -> Log:
    """Consumer 1 acknowledged two messages of batch 1:0, of three, gave it back, and was sent it again."""
    log = Log()
    log.join(1)
    log.publish(0, batch_size=3)
    log.dispatch(1, 0, batch_size=3)
    log.ack(1, 0, ack_set=[0b100])
    log.redeliver(1, 0)
    log.dispatch(1, 0, batch_size=3)
    return log


def two(*, permits: tuple[int, int] = (1_000, 1_000)) -> Log:
    """Consumers 1 and 2 with permits; 1 owns HIGH and HIGHEST, 2 owns LOW and LOWEST."""
    log = Log()
    log.join(1)
    log.join(2)
    log.flow(1, permits[0])
    log.flow(2, permits[1])
    return log


def say(log: Log, **settings: int) -> None:
    """Writes that the settings have these values from here on."""
    log.write("settings", settings={name: json.dumps(value) for name, value in settings.items()})


def send(log: Log, entries: Iterable[int]) -> list[int]:
    """Publishes entries and sends each to consumer 1; returns the seqs of the dispatches."""
    seqs = []
    for entry in entries:
        log.publish(entry)
        seqs.append(log.dispatch(1, entry))
    return seqs


def reported(consumer: int, **values: object) -> dict[str, object]:
    """What a snapshot says of one consumer."""
    return {"consumer": consumer, **values}


class Wait(NamedTuple):
    """An interval in which entries waited; consumers by the trace's numbers, -1 for nobody, hash -1 for none."""

    scope: str
    cause: str
    hash: int
    consumer: int
    blocking: int
    from_seq: int
    from_us: int
    to_seq: int
    to_us: int
    ended_by: str
    entries: int
    waited_us: int
    roots: tuple[tuple[int, int], ...]
    detail: dict[str, object]


class PassedOver(NamedTuple):
    """A hash that could be served and was not; consumers by the trace's numbers, -1 for nobody.

    `moves` are the seqs at which it changed hands while it was held or awaited.
    """

    hash: int
    owner: int
    from_seq: int
    to_seq: int
    ended_by: str
    entries: int
    head: tuple[int, int]
    passed: tuple[int, int]
    drained_from: int
    registered: int
    moves: tuple[int, ...]


class Disagreement(NamedTuple):
    """A snapshot that contradicts the trace."""

    rule: str
    seq: int
    consumer: int
    missing: tuple[str, ...]
    surplus: tuple[str, ...]
    undecided: bool = False


class Excess(NamedTuple):
    """What the broker counts as unacknowledged at a consumer, less what it holds, between two rows."""

    seq_begin: int
    seq_end: int
    consumer: int
    messages: int


class Finding(NamedTuple):
    """A finding; consumers by the trace's numbers, -1 for nobody."""

    rule: str
    seq: int
    consumer: int
    other_consumer: int
    other_seq: int
    draining: bool
    acknowledged: bool


class Episode(NamedTuple):
    """A draining episode; consumers by the trace's numbers, -1 for nobody."""

    hash: int
    holder: int
    new_owner: int
    from_seq: int
    to_seq: int
    held_at_start: int
    ended_by: str
    awaited: int
    waited_us: int
    returned_seq: int


@dataclass(frozen=True)
class Replay:
    """The result of the replay of one subscription."""

    replayed: ReplayResult
    epochs: list[PlacedEpoch]
    refused: list[Refused]
    config: ReplayConfig

    @cached_property
    def context(self) -> FindingContext:
        """What its verdicts depend on."""
        return FindingContext(self.replayed, self.config)

    @property
    def findings(self) -> list[Finding]:
        """In the order of seq and rule, without facts about clients."""
        found = self.replayed.findings
        columns = (
            [NAME_OF[rule] for rule in found.rule],
            found.seq.tolist(),
            self._numbers(found.consumer),
            self._numbers(found.other_consumer),
            found.other_seq.tolist(),
            (found.draining == 1).tolist(),
            (found.acknowledged == 1).tolist(),
        )
        every = (Finding(*row) for row in zip(*columns, strict=True))
        return sorted((of for of in every if of.rule not in CLIENT_RULES), key=lambda f: (f.seq, f.rule))

    @property
    def broken(self) -> list[tuple[str, int]]:
        """Of each finding the rule and the seq."""
        return [(finding.rule, finding.seq) for finding in self.findings]

    @property
    def verdicts(self) -> dict[tuple[str, int], FindingVerdict]:
        """Of each finding, by its rule and seq, in the order of the replay."""
        found = self.replayed.findings
        names = [NAME_OF[rule] for rule in found.rule]
        return dict(zip(zip(names, found.seq.tolist(), strict=True), judged(self.context), strict=True))

    @property
    def weighed(self) -> Counter[tuple[str, str]]:
        """How many findings there are by rule and severity, of dispatches, of what was stuck and of snapshots."""
        sources = (dispatch_findings, stuck_findings, mismatch_findings, counter_findings)
        of_rules = [of_rule for source in sources for of_rule in source(self.context)]
        return Counter({(r.rule, severity): n for r in of_rules for severity, n in r.counts.items() if n})

    @property
    def violated(self) -> list[tuple[str, int]]:
        """Rule and seq of the findings that break the contract, whether or not a known flaw explains it."""
        return sorted(
            (broken for broken, v in self.verdicts.items() if v.severity in ("violation", "known_bug")),
            key=lambda broken: (broken[1], broken[0]),
        )

    @property
    def episodes(self) -> list[Episode]:
        """In the order of hash and begin; also each time, ended by `returned`, in which the hash was away."""
        found = self.replayed.episodes
        columns = (
            found.hash.tolist(),
            self._numbers(found.holder),
            self._numbers(found.new_owner),
            found.from_seq.tolist(),
            found.to_seq.tolist(),
            found.held_at_start.tolist(),
            [ENDINGS[ending] for ending in found.ended_by],
            found.awaited.tolist(),
            found.waited_us.tolist(),
            found.returned_seq.tolist(),
        )
        return sorted((Episode(*row) for row in zip(*columns, strict=True)), key=lambda e: (e.hash, e.from_seq))

    @property
    def drainings(self) -> list[Episode]:
        """Those from the first move of a hash to the end, in the same order."""
        return [episode for episode in self.episodes if episode.ended_by != "returned"]

    @property
    def waits(self) -> list[Wait]:
        """Who waited for whom, in the order in which the intervals began."""
        return [
            Wait(
                b.scope,
                b.cause,
                b.hash,
                self._number(b.consumer),
                self._number(b.blocking),
                b.span.from_seq,
                b.span.from_ts,
                b.span.to_seq,
                b.span.to_ts,
                ENDINGS[b.span.ended_by],
                b.entries,
                b.waited_us,
                b.roots,
                dict(b.detail),
            )
            for b in self.replayed.monitor.blocked
        ]

    def waits_of(self, scope: str, cause: str | None = None) -> list[Wait]:
        """Those of one scope, and of one cause if one is named."""
        return [wait for wait in self.waits if wait.scope == scope and cause in (None, wait.cause)]

    @property
    def passed_heads(self) -> list[str]:
        """The first waiting entry of each hash that is `passed_over`, as text."""
        return [str(seen.head) for seen in self.passed_over]

    @property
    def passed_over(self) -> list[PassedOver]:
        """Hashes that could be served and were not, in the order in which that was seen."""
        found = standstills((wait, True) for wait in self.replayed.monitor.passed_over)
        return [
            PassedOver(
                o.hash,
                self._number(o.consumer),
                standstill.span.from_seq,
                o.span.to_seq,
                ENDINGS[o.span.ended_by],
                o.entries,
                o.roots[0],
                o.detail["passed"],
                self._number(o.blocking),
                o.detail["registered"],
                tuple(move.at.seq for move in o.detail["moves"]),
            )
            for standstill in sorted(found, key=lambda one: one.span.to_seq)
            for o in standstill.parts[-1:]
        ]

    @property
    def samples(self) -> list[Sample]:
        """The looks at the capacity, in their order."""
        return self.replayed.monitor.samples

    @property
    def disagreements(self) -> list[Disagreement]:
        """The snapshots that contradict the trace, in the order of seq."""
        return [
            Disagreement(m.rule, m.snapshot.seq, self._number(m.consumer), m.missing, m.surplus, bool(m.undecided))
            for m in self.replayed.snapshots.comparison.mismatches
        ]

    @property
    def agreement(self) -> dict[str, tuple[int, int]]:
        """By what was compared, how often the broker agreed, and of how many times."""
        comparison = self.replayed.snapshots.comparison
        return {what: (comparison.agreed[what], count) for what, count in sorted(comparison.compared.items())}

    @property
    def excesses(self) -> list[Excess]:
        """By how much the broker counts more than a consumer holds, of each exact snapshot of one."""
        return [
            Excess(s.seq_begin, s.seq_end, self._number(s.consumer), s.messages)
            for s in self.replayed.snapshots.surpluses
        ]

    @property
    def changes(self) -> list[tuple[str, int]]:
        """The membership changes, each with the seq after which it took effect."""
        return [(placed.epoch.change, placed.since.seq) for placed in self.epochs]

    @property
    def bytes(self) -> bytes:
        """All of it, to see whether two replays are the same to the bit."""
        result, context = self.replayed, self.context
        dispatcher, shares = result.dispatcher, result.membership.owners.epochs.shares.of_all()
        plain = (
            (self.epochs, sorted(self.refused), context.stays, dispatcher.counts, dispatcher.checked.tolist()),
            (context.numbers, context.when_joining, shares, self.waits, self.passed_over, self.samples),
            (self.disagreements, self.agreement, self.excesses),
        )
        return result.findings.tobytes() + result.episodes.tobytes() + repr(plain).encode()

    def _numbers(self, places: Any) -> list[int]:
        return [self._number(place) for place in places]

    def _number(self, place: int) -> int:
        return self.replayed.dispatcher.consumers.numbers[place] if place >= 0 else -1


def batches(rows: Sequence[Mapping[str, Any]], rows_per_batch: int | None = None) -> Iterator[pa.RecordBatch]:
    """The rows as typed batches of at most so many rows, as the readers of a trace hand them over."""
    size = rows_per_batch or max(len(rows), 1)
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        # A row has some of the columns; looking for the others in each takes several times as long.
        found: dict[str, list[Any]] = {}
        for at, row in enumerate(part):
            for name, value in row.items():
                if name not in found:
                    found[name] = [None] * len(part)
                found[name][at] = value
        columns = [
            pa.array(found[name], _TYPES[name]) if name in found else pa.nulls(len(part), _TYPES[name])
            for name in COLUMNS
        ]
        yield pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))


def packed(
    rows: Sequence[Mapping[str, Any]], version: str = "4.0.8", rows_per_batch: int | None = None
) -> tuple[Events, list[MembershipEvent]]:
    """The events of the one subscription in `rows`, in order, and what only its membership rows carry."""
    profile = profile_for(version, {})
    chunks = [chunk for batch in batches(rows, rows_per_batch) for chunk in pack(batch, profile)]
    parts = list(merged(sorted(chunks, key=lambda chunk: chunk.first_seq)))
    return concatenated([part.events for part in parts]), [row for part in parts for row in part.membership]


def replayed(
    rows: Sequence[Mapping[str, Any]],
    *,
    version: str = "4.0.8",
    settings: Mapping[str, object] = AUTO_SPLIT,
    skew_us: int = SKEW_US,
    open_entries_max: int = 1_000_000,
    rows_per_batch: int | None = None,
    thresholds: Thresholds | None = None,
    written: frozenset[str] = WRITTEN,
) -> Replay:
    """Replays the one subscription in `rows`.

    Args:
        rows: columns by name, in any order.
        version: of the broker; it chooses the profile.
        settings: broker.conf names to values.
        skew_us: recorder skew in microseconds.
        open_entries_max: limit on open entries.
        rows_per_batch: how the rows are cut before they are packed; must not matter.
        thresholds: how long something must last to be of interest; None: as the product has it.
        written: the kinds of rows that the recorder writes, whether or not a row is of that kind.
    """
    profile = profile_for(version, settings)
    broker = profile.broker(settings)
    config = ReplayConfig(
        profile,
        version,
        broker,
        skew_us,
        open_entries_max,
        thresholds=thresholds or Thresholds(),
        written=written,
        given=frozenset(settings),
    )
    return _replayed_groups([rows], config, rows_per_batch)[GROUP]


# Many tests look at the same recording, one after the other (conftest). All recordings would take gigabytes.
_once: Final = lru_cache(maxsize=2)


@_once
def replayed_recording(name: str) -> Mapping[Group, Replay]:
    """Replays every subscription of a recorded trace; its logs are read one after the other."""
    config = _config_of(name)
    return {group: _replayed_group(chunks, config) for group, chunks in _packed_recording(name).of_group.items()}


# For its replay and for its tables, which look at the same packed rows.
@_once
def _packed_recording(name: str) -> PackedRows:
    return packed_rows(recorded_batches(name), _config_of(name))


@_once
def recorded_logs(name: str) -> Sequence[Sequence[Columns]]:
    """The rows of each log of a recorded trace; nobody may change them."""
    return [_recorded(path) for path in sorted((RECORDINGS / name).glob("*.jsonl.gz")) if "oracle" not in path.name]


def replayed_logs(
    name: str,
    logs: Sequence[Sequence[Columns]],
    *,
    skew_us: int = SKEW_US,
    rows_per_batch: int | None = None,
    changed: Mapping[str, object] = MappingProxyType({}),
) -> dict[Group, Replay]:
    """Replays rows under the profile and the settings of a recorded trace, some of which may be changed."""
    return _replayed_groups(logs, _config_of(name, skew_us, changed), rows_per_batch)


def _config_of(
    name: str,
    skew_us: int = SKEW_US,
    changed: Mapping[str, object] = MappingProxyType({}),
    version: str | None = None,
    **rules: Any,
) -> ReplayConfig:
    manifest = json.loads((RECORDINGS / name / "trace.json").read_text())
    version, settings = version or manifest["pulsar_version"], {**manifest["settings"], **changed}
    profile = profile_for(version, settings)
    given = frozenset(settings)
    return ReplayConfig(profile, version, profile.broker(settings), skew_us, 10_000_000, given=given, **rules)


def _recorded(path: Path) -> list[Columns]:
    rows: list[Columns] = rows_in(path)
    for row in rows:
        if row.get("key_b64") is not None:
            row["key"] = base64.b64decode(row["key_b64"])
        if row.get("snapshot") is not None:
            row["snapshot"] = json.dumps(row["snapshot"])
    return rows


def tables_of(
    rows: Sequence[Mapping[str, Any]],
    *,
    version: str = "4.0.8",
    settings: Mapping[str, object] = AUTO_SPLIT,
    rows_per_batch: int | None = None,
    **rules: Any,
) -> Tables:
    """The rows of all tables that come of the one subscription in `rows`; `rules` are fields of `ReplayConfig`."""
    profile = profile_for(version, settings)
    rules = {"open_entries_max": 1_000_000, "written": WRITTEN, **rules}
    made = ReplayConfig(profile, version, profile.broker(settings), SKEW_US, **rules)
    return _tables([rows], made, rows_per_batch)


@_once
def recorded_tables(name: str) -> Tables:
    """The same of a recorded trace."""
    return _tables_of(_packed_recording(name), _config_of(name))


def tables_of_batches(name: str, batches: Iterable[pa.RecordBatch], **rules: Any) -> Tables:
    """The same of typed rows under the settings of a recorded trace, some of which, or its version, may be changed."""
    config = _config_of(name, **rules)
    return _tables_of(packed_rows(batches, config), config)


def tables_of_logs(name: str, logs: Sequence[Sequence[Columns]], **rules: Any) -> Tables:
    """The same of rows under the settings of a recorded trace."""
    return _tables(logs, _config_of(name, **rules), None)


def _tables(logs: Sequence[Sequence[Mapping[str, Any]]], config: ReplayConfig, rows_per_batch: int | None) -> Tables:
    return _tables_of(_packed(logs, config, rows_per_batch), config)


def _tables_of(packed: PackedRows, config: ReplayConfig) -> Tables:
    found: Tables = defaultdict(list)
    for group in packed.of_group:
        for table, rows in replayed_rows(packed, group, config).items():
            found[table] += rows
    return found


def _replayed_groups(
    logs: Sequence[Sequence[Mapping[str, Any]]], config: ReplayConfig, rows_per_batch: int | None
) -> dict[Group, Replay]:
    return {g: _replayed_group(chunks, config) for g, chunks in chunks_of(logs, config, rows_per_batch).items()}


def named_in(logs: Sequence[Sequence[Mapping[str, Any]]]) -> list[Group]:
    """The subscriptions that the rows name."""
    named = (row for rows in logs for row in rows if row.get("subscription"))
    return sorted({Group(row["topic"], row["subscription"]) for row in named})


def recorders_in(logs: Sequence[Sequence[Mapping[str, Any]]], skew_us: int) -> dict[str, Recorders]:
    """The recorders of each topic whose rows name any."""
    # Terms do not depend on what stands in for the key of a keyless message.
    profile = profile_for("4.0.8", {})
    packed = [chunk for rows in logs for batch in batches(rows) for chunk in pack(batch, profile)]
    return recorders_of_packed(packed, skew_us)


def chunks_of(
    logs: Sequence[Sequence[Mapping[str, Any]]],
    config: ReplayConfig,
    rows_per_batch: int | None = None,
    groups: Sequence[Group] | None = None,
) -> dict[Group, list[PackedBatch]]:
    """The rows packed, by subscription.

    Args:
        logs: rows, log by log.
        config: what the replay depends on.
        rows_per_batch: how the rows are cut before they are packed; must not matter.
        groups: the subscriptions, if not those that the rows name.
    """
    return _packed(logs, config, rows_per_batch, groups).of_group


def _packed(
    logs: Sequence[Sequence[Mapping[str, Any]]],
    config: ReplayConfig,
    rows_per_batch: int | None = None,
    groups: Sequence[Group] | None = None,
) -> PackedRows:
    in_batches = (batch for rows in logs for batch in batches(rows, rows_per_batch))
    return packed_rows(in_batches, config, named_in(logs) if groups is None else groups)


def _replayed_group(chunks: list[PackedBatch], config: ReplayConfig) -> Replay:
    subscription = Subscription(config)
    epochs: list[PlacedEpoch] = []
    refused: list[Refused] = []
    for part in merged(sorted(chunks, key=lambda chunk: chunk.first_seq)):
        subscription.feed(part)
        epochs += subscription.loop.membership.owners.take_epochs()
        refused += [*part.repeated, *part.contradicted, *subscription.loop.take_refused()]
    found = subscription.finish()
    owners = subscription.loop.membership.owners
    epochs += [*owners.take_epochs(), *owners.open_epoch()]
    return Replay(found, epochs, refused + subscription.loop.take_refused(), config)


def same_rows(some: Events, others: Events) -> bool:
    """Whether both hold equal rows in equal order."""
    return all(np.array_equal(mine, theirs) for mine, theirs in zip(some, others, strict=True))
