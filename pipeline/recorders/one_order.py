"""Renumbers the rows of several recorders as if one had written them: common seqs, and one number for each consumer.

This happens before packed batches are put in order, so that all later steps see one recorder
(`dispatch_audit.pipeline.recorders.recorders`).
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.packing.events import DTYPES, Code, Events
from dispatch_audit.pipeline.packing.gap import OF_TOPIC, apart
from dispatch_audit.pipeline.packing.membership_rows import NEVER, RESTARTS, MembershipEvent
from dispatch_audit.pipeline.packing.packed_batch import PackedBatch, of_each_topic
from dispatch_audit.pipeline.packing.producer_summary import NOTHING, MixedBatch, Published
from dispatch_audit.pipeline.packing.rows_aside import RecorderRow, SettingsRow
from dispatch_audit.pipeline.packing.snapshot import StatsRow
from dispatch_audit.pipeline.recorders.recorders import ONE, TRANSFER_ROWS, Recorders, Term

_Row = TypeVar("_Row", MembershipEvent, StatsRow, SettingsRow, MixedBatch)


def in_one_order(packed: PackedBatch, recorders: Recorders) -> list[PackedBatch]:
    """The rows with common seqs and numbers of consumers, if their topic has several recorders.

    Rows of different terms are separated, so that no packed batch contains rows before and after those of another
    recorder. A row that was written after the topic had moved to the next owner gets the time of that move. Rows of a
    recorder that was unknown when the terms were found are left out. A gap holds in every term in which rows may be
    missing; settings hold from their row on, and `Transfers` puts them in force again in later terms of their recorder.
    """
    if not recorders.terms:
        return [packed] if recorders.wrote(packed.broker) else []
    if packed.broker not in recorders.names:
        return []
    numbering = _Numbering(recorders, recorders.names.index(packed.broker))
    written, _, _ = apart(packed.events)
    parts = [*_gaps(packed, numbering), *_settings(packed, numbering), *_of_recorder(packed, numbering)]
    if not written.rows:
        return parts
    events = written.wide()
    of_row = np.maximum(np.searchsorted(numbering.begins, events.seq, side="right") - 1, 0)
    beside = [row for row in packed.details if not isinstance(row, SettingsRow | RecorderRow)]
    published = packed.published
    for at in np.unique(of_row).tolist():
        term = numbering.terms[at]
        own = events.take(of_row == at)
        seqs = own.seq + (term.first - term.first_seq)
        times = np.minimum(own.ts_us, term.until_us)
        consumers = np.where(own.consumer >= 0, own.consumer * numbering.count + numbering.recorder, own.consumer)
        details = [row for row in beside if numbering.index_of(row.seq) == at]
        # The publishes of all terms are counted together.
        parts.append(
            packed.having(
                own._replace(seq=seqs, ts_us=times, consumer=consumers),
                map(numbering.numbered, details),
                numbering.published(published),
            )
        )
        published = NOTHING
    return parts


def of_topics_in_one_order(
    packed: PackedBatch, topics: Iterable[str], recorders: Mapping[str, Recorders]
) -> Iterator[PackedBatch]:
    """The rows of a packed batch for its topic, or for each of `topics` if it holds for all, `in_one_order`.

    `recorders` are those of each topic whose rows name any.
    """
    for of_topic in of_each_topic(packed, topics):
        yield from in_one_order(of_topic, recorders.get(of_topic.topic, ONE))


def _gaps(packed: PackedBatch, numbering: "_Numbering") -> list[PackedBatch]:
    """The gaps among the rows, one for each term in which they hold."""
    events = packed.events.wide()
    events = events.take((events.code == Code.GAP) & (events.part == 0))
    held = [numbering.terms_within(*of_gap) for of_gap in zip(events.seq, events.entry, strict=True)]
    terms = [term for of_gap in held for term in of_gap]
    if not terms:
        return []
    events = events.take(np.repeat(np.arange(len(held)), [len(of_gap) for of_gap in held]))
    seqs = np.array([term.place(seq) for term, seq in zip(terms, events.seq.tolist(), strict=True)])
    ends = np.array([term.place(seq) for term, seq in zip(terms, events.entry.tolist(), strict=True)])
    untils = np.array([term.until_us for term in terms])
    order = np.argsort(seqs, kind="stable")
    events = events._replace(seq=seqs, entry=ends, ts_us=np.minimum(events.ts_us, untils)).take(order)
    return [packed.having(events)]


def _settings(packed: PackedBatch, numbering: "_Numbering") -> list[PackedBatch]:
    """The rows `settings` among the rows, those of each term by themselves."""
    by_term: dict[int, list[SettingsRow]] = {}
    for row in packed.details:
        if isinstance(row, SettingsRow):
            by_term.setdefault(numbering.index_of(row.seq), []).append(numbering.settings(row))
    return [_with_settings(packed, sorted(rows)) for _, rows in sorted(by_term.items())]


def _of_recorder(packed: PackedBatch, numbering: "_Numbering") -> list[PackedBatch]:
    """What the recorder says of itself, in each of its terms; in between it says nothing of the topic."""
    rows = [row for row in packed.details if isinstance(row, RecorderRow)]
    placed = sorted(row._replace(seq=seq) for row in rows if (seq := numbering.place_within(row.seq)) is not None)
    if not placed:
        return []
    seqs, times = np.array([row.seq for row in placed]), np.array([row.ts_us for row in placed])
    of_topic = np.array([row.shared for row in placed], dtype=np.int32) * OF_TOPIC
    return [packed.having(_blank(Code.RECORDER, seqs, times)._replace(word=of_topic), placed)]


def _with_settings(packed: PackedBatch, rows: Sequence[SettingsRow]) -> PackedBatch:
    """A packed batch with rows `settings` only."""
    seqs, times = np.array([row.seq for row in rows]), np.array([row.ts_us for row in rows])
    of_topic = np.array([row.shared for row in rows], dtype=np.int32) * OF_TOPIC
    return packed.having(_blank(Code.SETTINGS, seqs, times)._replace(word=of_topic), rows)


def _blank(code: Any, seqs: NDArray[np.int64], times: NDArray[np.int64]) -> Events:
    """Events without a position, consumer and key."""
    absent, none = np.full(seqs.size, -1), np.zeros(seqs.size, dtype=np.int32)
    events = Events(*(absent.astype(dtype) for dtype in DTYPES.values()))
    codes = np.broadcast_to(np.asarray(code, dtype=np.int8), seqs.shape).copy()
    return events._replace(code=codes, seq=seqs, ts_us=times, part=none, word=none, words_left=none)


class _Numbering:
    """The numbers that the rows of one recorder of a topic get."""

    def __init__(self, recorders: Recorders, recorder: int) -> None:
        self.recorder = recorder  # its index
        self.count = len(recorders.names)  # the number of recorders
        self.terms = [term for term in recorders.terms if term.recorder == recorder]  # its terms, in their order
        self.begins = [term.first_seq for term in self.terms]

    def terms_within(self, first: int, last: int) -> list[Term]:
        """The terms that missing rows between two seqs may belong to.

        The first recorded row of a term need not be its first row, so the next term is one of them.
        """
        return self.terms[self.index_of(first) : self.index_of(last) + 2]

    def index_of(self, seq: int) -> int:
        """The index of the term of a row."""
        return max(bisect_right(self.begins, seq) - 1, 0)

    def place_within(self, seq: int) -> int | None:
        """The place of a row in its term; None: it lies in none of them. The last term of a topic has no end."""
        term = self._term(seq)
        inside = term.first_seq <= seq and (term.until_us == NEVER or seq <= term.last_seq)
        return term.first + seq - term.first_seq if inside else None

    def numbered(self, row: MembershipEvent | StatsRow) -> MembershipEvent | StatsRow:
        """The details of a row with its new numbers, those within the text of a snapshot too."""
        if isinstance(row, MembershipEvent):
            return self._placed(row)._replace(consumer=self._consumer(row.consumer))
        term = self._term(row.seq)
        values: dict[str, Any] = json.loads(row.text)
        for name in ("seq_begin", "seq_end"):
            if values.get(name) is not None:
                values[name] = term.place(values[name])
        for consumer in values.get("consumers") or ():
            consumer["consumer"] = self._consumer(consumer["consumer"])
        return self._placed(row)._replace(text=json.dumps(values))

    def settings(self, row: SettingsRow) -> SettingsRow:
        """A row with its new numbers, which stay within its term."""
        term, placed = self._term(row.seq), self._placed(row)
        aside = not term.first_seq <= row.seq <= term.last_seq
        return placed._replace(seq_begin=term.place(row.seq_begin), said_seq=placed.seq, aside=aside)

    def published(self, found: Published) -> Published:
        """The summary of the producers with new seqs."""
        sent = [
            of._replace(first=(self._place(of.first[0]), of.first[1]), last=(self._place(of.last[0]), of.last[1]))
            for of in found.sent
        ]
        return Published(tuple(sent), tuple(map(self._placed, found.mixed)))

    def _placed(self, row: _Row) -> _Row:
        """A row at its place, and at the end of its term at the latest."""
        term = self._term(row.seq)
        return row._replace(seq=term.place(row.seq), ts_us=min(row.ts_us, term.until_us))

    def _place(self, seq: int) -> int:
        return self._term(seq).place(seq)

    def _term(self, seq: int) -> Term:
        return self.terms[self.index_of(seq)]

    def _consumer(self, number: int) -> int:
        return number * self.count + self.recorder if number >= 0 else number


class Transfers:
    """Adds a reset between two terms if none is recorded, because the next owner has a new dispatcher.

    It also puts the settings of the next owner in force, which are those that its own recorder has written so far.
    """

    def __init__(self, recorders: Recorders) -> None:
        self._terms = recorders.terms
        self.rows = 0  # the number of rows added so far

    @property
    def places(self) -> int:
        """The number of seqs that are reserved for such rows."""
        return TRANSFER_ROWS * max(len(self._terms) - 1, 0)

    def among(self, batches: Iterable[PackedBatch]) -> Iterator[PackedBatch]:
        """The packed batches of a group, in order, with the resets between them."""
        waiting = list(self._terms[:-1])
        rows: list[MembershipEvent] = []
        settings: list[SettingsRow] = []
        for batch in batches:
            while waiting and waiting[0].last < batch.first_seq:
                term = waiting.pop(0)
                if settings:
                    yield self._settings_again(settings, term, batch)
                if not _is_over([row for row in rows if term.first <= row.seq <= term.last]):
                    self.rows += TRANSFER_ROWS
                    yield _transfer(term, batch)
                rows = [row for row in rows if row.seq > term.last]
            if waiting:
                rows += (row for row in batch.details if isinstance(row, MembershipEvent))
                settings += (row for row in batch.details if isinstance(row, SettingsRow))
            yield batch

    def _settings_again(self, settings: Sequence[SettingsRow], before: Term, batch: PackedBatch) -> PackedBatch:
        """The settings of the next owner, at the place in front of its first row."""
        number = self._terms.index(before) + 1
        following = self._terms[number]
        own = [term for term in self._terms[:number] if term.recorder == following.recorder]
        place, at_us = following.first - 1, before.until_us
        anew = SettingsRow(place, at_us, place, -1, False, False, True, "{}", "{}")
        rows = [row for row in sorted(settings) if any(term.first <= row.seq <= term.last for term in own)]
        again = [row._replace(seq=place, ts_us=at_us, seq_begin=place, shared=False) for row in rows]
        return _with_settings(batch, [anew, *again])


def _is_over(rows: Iterable[MembershipEvent]) -> bool:
    """Whether a reset followed the last join of a term."""
    resets = [row.seq for row in rows if row.kind == "reset" and row.late and row.reason in RESTARTS]
    joins = [row.seq for row in rows if row.kind == "join" and row.consumer >= 0]
    return max(resets, default=-1) > max(joins, default=-1)


def _transfer(term: Term, batch: PackedBatch) -> PackedBatch:
    """Both sides of a reset after the last row of a term, in front of the rows of the next packed batch."""
    sides, at_us = np.array([Code.RESET_START, Code.RESET_END]), term.until_us
    seqs = term.last + 1 + np.arange(TRANSFER_ROWS)
    rows = [
        MembershipEvent(int(seq), at_us, "reset", late, -1, "", False, False, (), "transfer")
        for seq, late in zip(seqs, (False, True), strict=True)
    ]
    return batch.having(_blank(sides, seqs, np.full(TRANSFER_ROWS, at_us)), rows)
