"""Finds the terms in which each recorder's broker owned a topic, from the rows that only an owner writes.

Only the owner of a topic publishes, dispatches, creates consumers and takes snapshots. Rows of one recorder are ordered
by `seq`, the terms of several by time. Other rows belong to the term before them, such as acks in flight that come
after the transfer. But joins that begin at about the end of the other recorder's term belong to the next term.

Times of two clocks are compared as far as the trace shows that these agree. Ledgers ascend from owner to owner. A
producer stamps what it publishes with its own clock: if the rows of two recorders are behind its stamps by other times,
their clocks are apart (`apart`).

Source: TRACE_FORMAT, "Several recorders"; contract 5.10.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.packing.events import Code
from dispatch_audit.pipeline.packing.membership_rows import NEVER
from dispatch_audit.pipeline.packing.narrow_events import NarrowEvents
from dispatch_audit.pipeline.packing.packed_batch import PackedBatch
from dispatch_audit.pipeline.recorders.recorders import TRANSFER_ROWS, Apart, Recorders, Term
from dispatch_audit.pipeline.utc import moment

_WAY_OUT: Final = (
    "synchronize the clocks of the brokers or raise trace.recorder_skew_ms; or audit the log of each recorder by itself"
)

_NAMELESS: Final = "one without a name"
# In the names of producers that copy from another cluster (`AbstractReplicator`), with the stamps of whoever published.
_REPLICATES: Final = "-->"
# A client gives up what it could not send within `sendTimeout`, 30 s by default, so stamps are no older than that.
_HELD_US_MAX: Final = 30_000_000


class OwnershipSign(IntEnum):
    """The kinds of rows by what they show about the owner of a topic."""

    ANY = 0  # any other row
    OWNS = 1  # only an owner writes them
    SENDS = 2  # only an owner writes them, after a consumer has joined
    JOINED = 3  # only an owner writes them: a consumer was created
    ARRIVES = 4  # a consumer asks for the topic, or a reset: at the next owner, or refused
    STAMPED = 5  # how late the rows of a producer's entries are by its stamps, in place of times


class Stretch(NamedTuple):
    """Rows of one recorder, topic and kind that follow each other closely."""

    topic: str  # the topic of the rows
    broker: str  # the name of the recorder, "" if it has none
    producer: str  # of `STAMPED`: whose stamps
    kind: int  # an `OwnershipSign`
    first_seq: int  # the lowest seq
    last_seq: int  # the highest seq
    first_us: int  # the lowest wall clock
    last_us: int  # the highest wall clock
    consumer: int  # the highest number of a consumer; -1: none
    first_ledger: int  # the lowest ledger that was published to; `NEVER`: none
    last_ledger: int  # the highest; -1: none


def stretches(packed: PackedBatch, skew_us: int) -> list[Stretch]:
    """The stretches in one packed batch.

    Args:
        packed: rows of one recorder of one topic.
        skew_us: two rows further apart in time may have rows of another recorder between them.
    """
    # A gap shows no owner: it may hold for topics that its recorder never wrote of.
    events = packed.events.take(packed.events.column("code") != Code.GAP)
    if not events.rows:
        return []
    kind = _kinds(events)
    code, seq, ts_us, consumer, ledger = (
        events.column(name) for name in ("code", "seq", "ts_us", "consumer", "ledger")
    )
    published = np.isin(code, (Code.PUBLISH, Code.PUBLISH_DELAYED))
    first_ledger, last_ledger = np.where(published, ledger, NEVER), np.where(published, ledger, -1)
    broker = packed.broker or ""
    found = [
        Stretch(
            *(packed.topic, broker, sent.producer),
            *(OwnershipSign.STAMPED, -1, -1, sent.late_us, sent.late_us, -1, NEVER, -1),
        )
        for sent in packed.published.sent
        if sent.late_us is not None and sent.producer is not None and _REPLICATES not in sent.producer
    ]
    order = np.lexsort((seq, kind))
    breaks = (np.abs(np.diff(ts_us[order])) > skew_us) | (kind[order][1:] == OwnershipSign.ARRIVES)
    breaks = (breaks & (kind[order][1:] != OwnershipSign.ANY)) | (np.diff(kind[order]) != 0)
    starts = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    first, last = order[starts], order[np.append(starts[1:] - 1, order.size - 1)]
    bounds = zip(
        kind[first],
        seq[first],
        seq[last],
        np.minimum.reduceat(ts_us[order], starts),
        np.maximum.reduceat(ts_us[order], starts),
        np.maximum.reduceat(consumer[order], starts),
        np.minimum.reduceat(first_ledger[order], starts),
        np.maximum.reduceat(last_ledger[order], starts),
        strict=True,
    )
    return found + [Stretch(packed.topic, broker, "", *map(int, of_stretch)) for of_stretch in bounds]


_KIND_OF_CODE: Final = {
    Code.PUBLISH: OwnershipSign.OWNS,
    Code.PUBLISH_DELAYED: OwnershipSign.OWNS,
    # Snapshots.
    Code.MARK_DELETE: OwnershipSign.OWNS,
    Code.OTHER: OwnershipSign.OWNS,
    # Ends of dispatches may come late: a connection still takes them while the topic moves to another broker.
    Code.DISPATCH_START: OwnershipSign.SENDS,
    Code.JOIN_START: OwnershipSign.ARRIVES,
    Code.JOIN_END: OwnershipSign.JOINED,
    Code.RESET_START: OwnershipSign.ARRIVES,
    Code.RESET_END: OwnershipSign.ARRIVES,
}
_KINDS: Final = np.array([_KIND_OF_CODE.get(code, OwnershipSign.ANY) for code in Code], dtype=np.int64)


def _kinds(events: NarrowEvents) -> NDArray[np.int64]:
    code = events.column("code")
    # The broker refused a consumer without a number.
    refused = (code == Code.JOIN_END) & (events.column("consumer") < 0)
    return np.where(refused, OwnershipSign.ANY, _KINDS[code])


def recorders_of(topic: str, parts: Iterable[Stretch], skew_us: int) -> Recorders:
    """The recorders of a topic and their terms.

    Args:
        topic: the name of the topic, for messages.
        parts: the stretches of all its rows.
        skew_us: how far the clocks of two brokers may be apart, in microseconds.

    Raises:
        TraceError: two recorders wrote as owners at one time, or their numbers are too large to be combined.
    """
    parts = list(parts)
    bounds = {
        broker: _joined(*(p for p in parts if p.broker == broker and p.kind != OwnershipSign.STAMPED))
        for broker in sorted({part.broker for part in parts})
    }
    names = tuple(bounds)
    if len(names) < 2:
        return Recorders(tuple(name or None for name in names) or (None,))
    runs = _runs(topic, parts, skew_us)
    for broker in names:
        if all(run.broker != broker for run in runs):
            # It never owned the topic while it recorded: its rows are late, or the broker refused them.
            alone = bounds[broker]._replace(last_us=bounds[broker].first_us)
            at = sum(run.first_us <= alone.first_us for run in runs)
            runs.insert(max(at - 1, 0), alone)
    runs = _with_arrivals(topic, parts, runs, skew_us)
    # No term ends after the beginning of a later one.
    until = list(accumulate((run.first_us for run in reversed(runs[1:])), min, initial=NEVER))[::-1]
    terms: list[Term] = []
    for number, run in enumerate(runs):
        later = [other.first_seq for other in runs[number + 1 :] if other.broker == run.broker]
        earlier = any(other.broker == run.broker for other in runs[:number])
        terms.append(
            Term(
                names.index(run.broker),
                run.first_seq if earlier else bounds[run.broker].first_seq,
                later[0] - 1 if later else bounds[run.broker].last_seq,
                terms[-1].last + 1 + TRANSFER_ROWS if terms else bounds[run.broker].first_seq,
                until[number],
            )
        )
    highest = max(terms[-1].last, (max(b.consumer for b in bounds.values()) + 1) * len(names))
    if highest > NEVER:
        raise TraceError(
            f"{topic}: the seqs or consumer numbers of its recorders are too large to be combined", _WAY_OUT
        )
    spoken = tuple(name or None for name in names)
    return Recorders(spoken, tuple(terms), tuple(_apart(parts, names, terms, skew_us)))


def _apart(parts: Sequence[Stretch], names: Sequence[str], terms: Sequence[Term], skew_us: int) -> Iterator[Apart]:
    """The transfers between recorders whose clocks are apart by the stamps of every producer that both know."""
    late: dict[str, dict[str, int]] = {name: {} for name in names}
    for part in parts:
        if part.kind == OwnershipSign.STAMPED:
            of = late[part.broker]
            of[part.producer] = min(part.first_us, of.get(part.producer, NEVER))
    for before, term in pairwise(terms):
        one, other = late[names[before.recorder]], late[names[term.recorder]]
        by = {name: other[name] - one[name] for name in sorted(one.keys() & other.keys())}
        least = min(by, key=lambda name: abs(by[name]), default=None)
        if least is not None and abs(by[least]) > skew_us + _HELD_US_MAX:
            yield Apart(term.first, before.last + 1, by[least], least)


def _joined(*parts: Stretch) -> Stretch:
    """The stretch from the beginning of the first of some stretches to the end of the last."""
    return parts[0]._replace(
        first_seq=min(part.first_seq for part in parts),
        last_seq=max(part.last_seq for part in parts),
        first_us=min(part.first_us for part in parts),
        last_us=max(part.last_us for part in parts),
        consumer=max(part.consumer for part in parts),
        first_ledger=min(part.first_ledger for part in parts),
        last_ledger=max(part.last_ledger for part in parts),
    )


def _runs(topic: str, parts: Sequence[Stretch], skew_us: int) -> list[Stretch]:
    """The runs of the owners, one after the other: what one recorder wrote as owner without another in between."""
    owning = sorted(
        (p for p in parts if p.kind in (OwnershipSign.OWNS, OwnershipSign.SENDS, OwnershipSign.JOINED)),
        key=lambda part: (part.first_us, part),
    )
    runs: list[Stretch] = []
    for part in owning:
        before = runs[-2] if len(runs) > 1 else None
        if runs and runs[-1].broker == part.broker:
            runs[-1] = _joined(runs[-1], part)
        elif before and before.broker == part.broker and part.first_us <= runs[-1].first_us + skew_us:
            runs[-2] = _joined(before, part)
        else:
            runs.append(part)
    for run, following in pairwise(runs):
        if run.last_us > following.first_us + skew_us:
            raise _overlap(topic, run.broker, following.broker, following.first_us, run.last_us)
        if run.last_ledger > following.first_ledger:
            one, other = run.broker or _NAMELESS, following.broker or _NAMELESS
            raise TraceError(
                f"{topic}: the rows of the recorder {other} come after those of {one} by their clocks, and before them "
                f"by their ledgers ({following.first_ledger} and {run.last_ledger})",
                _WAY_OUT,
            )
    return runs


def _with_arrivals(topic: str, parts: Sequence[Stretch], runs: Sequence[Stretch], skew_us: int) -> list[Stretch]:
    """The runs, each from its first row of an owner on, or from an earlier join or reset."""
    found: list[Stretch] = []
    for number, run in enumerate(runs):
        former_seq = max((other.last_seq for other in runs[:number] if other.broker == run.broker), default=-1)
        before = runs[number - 1] if number else run
        of_run = [part for part in parts if part.broker == run.broker and former_seq < part.first_seq <= run.last_seq]
        since_us = before.last_us - skew_us if number else 0
        arrivals = [
            p
            for p in of_run
            if p.kind == OwnershipSign.ARRIVES and p.first_us >= since_us and p.first_seq < run.first_seq
        ]
        found.append(_joined(run, *arrivals))
        if former_seq < 0:
            continue
        # A broker that owns a topic again has lost its consumers. If it sends before any join, it never lost the topic.
        sent = min((p for p in of_run if p.kind == OwnershipSign.SENDS), key=lambda p: p.first_seq, default=None)
        joined = [
            p
            for p in of_run
            if p.kind in (OwnershipSign.JOINED, OwnershipSign.ARRIVES) and p.first_seq >= found[-1].first_seq
        ]
        orphaned = sent is not None and all(p.first_us > sent.first_us + skew_us for p in joined)
        if run.first_seq <= former_seq or orphaned:
            raise _overlap(topic, before.broker, run.broker, before.first_us, run.last_us)
    return found


def _overlap(topic: str, broker: str, other: str, since_us: int, until_us: int) -> TraceError:
    names = " and ".join(name or _NAMELESS for name in sorted((broker, other)))
    return TraceError(
        f"{topic}: the recorders {names} both wrote as its owner between {moment(since_us)} and {moment(until_us)} UTC",
        _WAY_OUT,
    )
