"""Looks for the shortest trace that still gives a finding.

The test of a trace is the replay of its rows: the finding must be there, by its id and severity, and no row may be
refused. Rows are left out in ever smaller units: first what lies after the finding and what does not concern its hash,
then keys, consumers and entries, then single rows. The result depends on the rows and the limit only.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from dispatch_audit.pipeline.explain.ddmin import minimized
from dispatch_audit.pipeline.explain.subscription_events import SubscriptionEvents
from dispatch_audit.pipeline.groups.replay_rows import packed_rows, replayed_rows
from dispatch_audit.pipeline.packing.pack import COLUMNS
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.replay.config import ReplayConfig

REPLAYS_MAX: Final = 3_000
# How many rows of the hash before the finding are tried: most findings need few of them.
_LAST: Final = (12, 48, 192)
# How many rows of the subscription before the finding are tried.
_LAST_OF_ALL: Final = (64, 512, 4096)

Finding = Mapping[str, Any]
Rows = Sequence[int]
"""Indexes of rows of a table, ascending."""


@dataclass(frozen=True)
class Shortest:
    """The result of a search.

    Attributes:
        rows: the rows that are left, in the order of the topic.
        replays: how many traces were tried.
        finished: whether the search ended before its limit.
    """

    rows: pa.Table
    replays: int
    finished: bool


class SameFinding:
    """Whether some rows still give a finding; counts how often it was asked.

    Attributes:
        replays: how many traces were replayed so far.
        exhausted: whether it was asked more often than the limit allows; from then on the answer is no.
    """

    def __init__(
        self, rows: pa.Table, group: Group, config: ReplayConfig, finding: Finding, replays_max: int = REPLAYS_MAX
    ) -> None:
        """Takes the rows of the subscription, and the row of `violations` to look for."""
        self.replays = 0
        self.exhausted = False
        self._rows = rows.select(COLUMNS).combine_chunks()
        self._group = group
        self._config = config
        self._wanted = finding["finding_id"], finding["severity"]
        self._replays_max = replays_max
        self._answers: dict[bytes, bool] = {}

    def __call__(self, rows: Rows) -> bool:
        """Whether these rows give the finding, and the replay refuses none of them."""
        index = np.asarray(rows, dtype=np.int64)
        known = self._answers.get(index.tobytes())
        if known is not None:
            return known
        if self.replays >= self._replays_max:
            self.exhausted = True
            return False
        self.replays += 1
        answer = self._gives(self._rows.take(pa.array(index)))
        self._answers[index.tobytes()] = answer
        return answer

    def _gives(self, rows: pa.Table) -> bool:
        packed = packed_rows(rows.to_batches(), self._config)
        if self._group not in packed.of_group:
            # An audit takes the subscriptions from the rows, and a publish names none.
            return False
        found = replayed_rows(packed, self._group, self._config)
        same = any((row["finding_id"], row["severity"]) == self._wanted for row in found.get("violations", ()))
        return same and not found.get("refused")


def shortest_trace(
    rows: pa.Table,
    events: SubscriptionEvents,
    sticky_hash: int | None,
    finding: Finding,
    refused: Collection[int] = (),
    replays_max: int = REPLAYS_MAX,
) -> Shortest | None:
    """Returns the shortest trace that the search finds; None: the rows do not give the finding.

    Args:
        rows: of the subscription, and the publishes of its topic.
        events: the same, packed.
        sticky_hash: the hash that the finding is about; None: none.
        finding: the row of `violations`.
        refused: the places of rows that the replay refuses.
        replays_max: most traces to try.
    """
    in_order = _InOrder(rows, events, refused)
    holds = SameFinding(in_order.rows, events.group, events.claimed, finding, replays_max)
    at = events.place(finding["broker"], finding["seq"])
    kept = next((some for some in in_order.candidates(sticky_hash, at) if holds(some)), None)
    if kept is None:
        return None
    for unit_of in in_order.granularities():
        kept = _without_units(kept, unit_of, holds)
    return Shortest(in_order.rows.take(pa.array(kept)), holds.replays, not holds.exhausted)


def _without_units(kept: Rows, unit_of: Callable[[int], Hashable | None], holds: Callable[[Rows], bool]) -> Rows:
    """Returns the rows that are left if units are left out; rows without a unit stay."""
    units: dict[Hashable, list[int]] = defaultdict(list)
    fixed: list[int] = []
    for row in kept:
        unit = unit_of(row)
        (fixed if unit is None else units[unit]).append(row)

    def rows_of(chosen: Iterable[Hashable]) -> Rows:
        return sorted([*fixed, *(row for unit in chosen for row in units[unit])])

    return rows_of(minimized(list(units), lambda chosen: holds(rows_of(chosen))))


class _InOrder:
    """The rows that the replay uses, in the order of the topic, and the units that they belong to."""

    def __init__(self, rows: pa.Table, events: SubscriptionEvents, refused: Collection[int]) -> None:
        nameless = not events.recorders.terms
        brokers = [None] * rows.num_rows if nameless else rows.column("broker").to_pylist()
        seqs = rows.column("seq").to_pylist()
        places = np.array([events.place(*of_row) for of_row in zip(brokers, seqs, strict=True)], dtype=np.int64)
        # Of rows with one seq the replay uses the earliest, and they come in the order of time.
        _, order = np.unique(places, return_index=True)
        order = order[~np.isin(places[order], np.array([*refused], dtype=np.int64))]
        self.rows = rows.take(pa.array(order))
        self._places = places[order]
        self._events = events
        self._event, self._consumer = (self.rows.column(name).to_pylist() for name in ("event", "consumer"))

    def candidates(self, sticky_hash: int | None, at: int) -> Iterator[Rows]:
        """Yields what is likely to be enough, the fewest rows first; last all rows."""
        everything = np.arange(self._places.size)
        until = everything[self._places <= at]
        if sticky_hash is not None:
            of_hash = np.isin(self._places, self._events.events.seq[self._events.of_hash(sticky_hash)])
            of_members = np.array([event in ("join", "leave", "reset", "settings") for event in self._event])
            changes, of_hash_until = until[of_members[until]].tolist(), until[of_hash[until]].tolist()
            named = {self._consumer[row] for row in of_hash_until}
            of_named = [row for row in changes if self._consumer[row] in named or self._event[row] == "settings"]
            for members in (of_named, changes):
                yield from (sorted({*of_hash_until[-number:], *members}) for number in _LAST)
            # Rows of other hashes may be needed: their dispatches show, for instance, what the broker had read.
            for number in _LAST_OF_ALL:
                yield sorted({*of_hash_until, *changes, *until[-number:].tolist()})
            of_broker = np.array([event in ("stats", "flow") for event in self._event])
            for chosen in (of_hash | of_members, of_hash | of_members | of_broker):
                yield until[chosen[until]].tolist()
                yield everything[chosen].tolist()
        yield until.tolist()
        yield everything.tolist()

    def granularities(self) -> Iterator[Callable[[int], Hashable | None]]:
        """Yields units to leave out, the large ones first: what each row belongs to, None: nothing of the kind."""
        yield lambda row: self._event[row] if self._event[row] in ("stats", "flow", "settings") else None
        yield lambda row: self._key_of_place.get(int(self._places[row]))
        yield lambda row: self._consumer[row]
        yield lambda row: self._entry_of_place.get(int(self._places[row]))
        yield lambda row: row

    @cached_property
    def _key_of_place(self) -> Mapping[int, int]:
        """The murmur value of the key of each row's entry, or what stands for it where keys are digests."""
        events = self._events.events
        keyed = events.murmur != -1
        of_entry = dict(
            zip(
                zip(events.ledger[keyed].tolist(), events.entry[keyed].tolist(), strict=True),
                events.murmur[keyed].tolist(),
                strict=True,
            )
        )
        return {place: of_entry[entry] for place, entry in self._entry_of_place.items() if entry in of_entry}

    @cached_property
    def _entry_of_place(self) -> Mapping[int, tuple[int, int]]:
        """The entry of each row that names just one."""
        events = self._events.events
        named = events.ledger >= 0
        found: dict[int, set[tuple[int, int]]] = defaultdict(set)
        columns = (events.seq[named].tolist(), events.ledger[named].tolist(), events.entry[named].tolist())
        for place, ledger, entry in zip(*columns, strict=True):
            found[place].add((ledger, entry))
        return {place: next(iter(entries)) for place, entries in found.items() if len(entries) == 1}
