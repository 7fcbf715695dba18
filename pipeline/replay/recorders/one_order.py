"""Renumbers the rows of several recorders as if one had written them: common seqs, and one number for each consumer.

This happens before packed batches are put in order, so that all later steps see one recorder
(`dispatch_audit.pipeline.replay.recorders.recorders`).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.packing.events import DTYPES, Code, Events
from dispatch_audit.pipeline.replay.packing.gap import OF_TOPIC, apart
from dispatch_audit.pipeline.replay.packing.membership_rows import NEVER, MembershipEvent
from dispatch_audit.pipeline.replay.packing.packed_batch import PackedBatch, of_each_topic
from dispatch_audit.pipeline.replay.packing.producer_summary import NOTHING, MixedBatch, Published, SentByProducer
from dispatch_audit.pipeline.replay.packing.snapshot import StatsRow
from dispatch_audit.pipeline.replay.recorders.recorders import ONE, Recorders, Term
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow
from dispatch_audit.pipeline.replay.signs.broker_signs import RecorderRow


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
    parts = [gaps] if (gaps := _gaps(packed, numbering)) is not None else []
    parts += [*_settings(packed, numbering), *_of_recorder(packed, numbering)]
    if not written.rows:
        return parts
    events = written.wide()
    of_row = numbering.term_of(events.seq)
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


def _gaps(packed: PackedBatch, numbering: "_Numbering") -> PackedBatch | None:
    """The gaps among the rows, one for each term in which they hold; None: there are none."""
    events = packed.events.wide()
    events = events.take((events.code == Code.GAP) & (events.part == 0))
    held = [numbering.terms_within(*of_gap) for of_gap in zip(events.seq, events.entry, strict=True)]
    terms = [term for of_gap in held for term in of_gap]
    if not terms:
        return None
    events = events.take(np.repeat(np.arange(len(held)), [len(of_gap) for of_gap in held]))
    seqs = np.array([term.place(seq) for term, seq in zip(terms, events.seq.tolist(), strict=True)])
    ends = np.array([term.place(seq) for term, seq in zip(terms, events.entry.tolist(), strict=True)])
    untils = np.array([term.until_us for term in terms])
    order = np.argsort(seqs, kind="stable")
    events = events._replace(seq=seqs, entry=ends, ts_us=np.minimum(events.ts_us, untils)).take(order)
    return packed.having(events)


def _settings(packed: PackedBatch, numbering: "_Numbering") -> list[PackedBatch]:
    """The rows `settings` among the rows, those of each term by themselves."""
    by_term: dict[int, list[SettingsRow]] = {}
    for row in packed.details:
        if isinstance(row, SettingsRow):
            by_term.setdefault(numbering.index_of(row.seq), []).append(numbering.settings(row))
    return [with_settings(packed, sorted(rows)) for _, rows in sorted(by_term.items())]


def _of_recorder(packed: PackedBatch, numbering: "_Numbering") -> list[PackedBatch]:
    """What the recorder says of itself, in each of its terms; in between it says nothing of the topic."""
    rows = [row for row in packed.details if isinstance(row, RecorderRow)]
    placed = sorted(row._replace(seq=seq) for row in rows if (seq := numbering.place_within(row.seq)) is not None)
    if not placed:
        return []
    seqs, times = np.array([row.seq for row in placed]), np.array([row.ts_us for row in placed])
    of_topic = np.array([row.shared for row in placed], dtype=np.int32) * OF_TOPIC
    return [packed.having(blank(Code.RECORDER, seqs, times)._replace(word=of_topic), placed)]


def with_settings(packed: PackedBatch, rows: Sequence[SettingsRow]) -> PackedBatch:
    """A packed batch with rows `settings` only."""
    seqs, times = np.array([row.seq for row in rows]), np.array([row.ts_us for row in rows])
    of_topic = np.array([row.shared for row in rows], dtype=np.int32) * OF_TOPIC
    return packed.having(blank(Code.SETTINGS, seqs, times)._replace(word=of_topic), rows)


def blank(code: Any, seqs: NDArray[np.int64], times: NDArray[np.int64]) -> Events:
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
        self._begins = [term.first_seq for term in self.terms]

    def term_of(self, seq: NDArray[Any]) -> NDArray[np.intp]:
        """The index of the term of each seq."""
        return np.maximum(np.searchsorted(self._begins, seq, side="right") - 1, 0)

    def terms_within(self, first: int, last: int) -> list[Term]:
        """The terms that missing rows between two seqs may belong to.

        The first recorded row of a term need not be its first row, so the next term is one of them.
        """
        begins, ends = self.term_of(np.array([first, last])).tolist()
        return self.terms[begins : ends + 2]

    def index_of(self, seq: int) -> int:
        """The index of the term of a row."""
        return int(self.term_of(np.array([seq]))[0])

    def place_within(self, seq: int) -> int | None:
        """The place of a row in its term; None: it lies in none of them. The last term of a topic has no end."""
        term = self._term(seq)
        is_last = term.until_us == NEVER
        inside = term.first_seq <= seq and (is_last or seq <= term.last_seq)
        return term.first + seq - term.first_seq if inside else None

    def numbered(self, row: MembershipEvent | StatsRow) -> MembershipEvent | StatsRow:
        """The details of a row with its new numbers, those within the text of a snapshot too."""
        seq, ts_us = self._at(row.seq, row.ts_us)
        if isinstance(row, MembershipEvent):
            return row._replace(seq=seq, ts_us=ts_us, consumer=self._consumer(row.consumer))
        term = self._term(row.seq)
        values: dict[str, Any] = json.loads(row.text)
        for name in ("seq_begin", "seq_end"):
            if values.get(name) is not None:
                values[name] = term.place(values[name])
        for consumer in values.get("consumers") or ():
            consumer["consumer"] = self._consumer(consumer["consumer"])
        return StatsRow(seq, ts_us, json.dumps(values))

    def settings(self, row: SettingsRow) -> SettingsRow:
        """A row with its new numbers, which stay within its term."""
        term = self._term(row.seq)
        seq, ts_us = self._at(row.seq, row.ts_us)
        begin = term.place(row.seq_begin)
        aside = not term.first_seq <= row.seq <= term.last_seq
        return row._replace(seq=seq, ts_us=ts_us, seq_begin=begin, said_seq=seq, aside=aside)

    def published(self, found: Published) -> Published:
        """The summary of the producers with new seqs."""
        return Published(tuple(map(self._sent, found.sent)), tuple(map(self._mixed, found.mixed)))

    def _mixed(self, batch: MixedBatch) -> MixedBatch:
        seq, ts_us = self._at(batch.seq, batch.ts_us)
        return batch._replace(seq=seq, ts_us=ts_us)

    def _sent(self, sent: SentByProducer) -> SentByProducer:
        first, last = ((self._at(seq, 0)[0], sequence_id) for seq, sequence_id in (sent.first, sent.last))
        return sent._replace(first=first, last=last)

    def _at(self, seq: int, ts_us: int) -> tuple[int, int]:
        term = self._term(seq)
        return term.place(seq), min(ts_us, term.until_us)

    def _term(self, seq: int) -> Term:
        return self.terms[self.index_of(seq)]

    def _consumer(self, number: int) -> int:
        return number * self.count + self.recorder if number >= 0 else number
