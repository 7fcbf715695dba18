"""Ranges folded over epochs, against the epochs themselves."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from known_changes import join, leave, reset

from dispatch_audit.pipeline.assignment import AssignmentLog, Epoch
from dispatch_audit.pipeline.assignment.ranges.routing import HashRangeOf
from dispatch_audit.pipeline.contract.profile import SelectorKind
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.membership.history import PlacedEpoch
from dispatch_audit.pipeline.replay.subscription.range_ownership import Beginning, OwnedRanges, RangeOwnership

KINDS: Sequence[SelectorKind] = ("consistent_hashing", "auto_split")


def epochs_of(kind: SelectorKind, consumers: Sequence[int]) -> list[Epoch]:
    """Each consumer that is named joins, or leaves if it is in; 9 resets."""
    log = AssignmentLog(kind, points=5)
    inside: set[int] = set()
    for seq, consumer in enumerate(consumers, 1):
        if consumer == 9:
            reset(log, seq)
            inside.clear()
        elif consumer in inside:
            leave(log, consumer, seq)
            inside.remove(consumer)
        else:
            join(log, consumer, f"c{consumer}", seq)
            inside.add(consumer)
    return [*log.take_closed(), *([log.current] if log.current is not None else [])]


def placed(epochs: Sequence[Epoch]) -> list[PlacedEpoch]:
    """All epochs of a log, each until the next one begins."""
    began = [_place(epoch.from_seq) for epoch in epochs]
    return [PlacedEpoch(epoch, *points) for epoch, *points in zip_longest(epochs, began, began[1:])]


def _place(seq: int) -> TracePoint:
    return TracePoint(seq, 1000 * seq)


class Tenure(NamedTuple):
    """One row of `OwnedRanges`."""

    held: HashRangeOf
    name: str
    began: Beginning
    last_epoch: int | None
    until: TracePoint | None


def rows_of(part: OwnedRanges) -> list[Tenure]:
    return [
        Tenure(held, part.names[held[2]], part.beginnings[epoch], part.last_epoch, part.until)
        for held, epoch in zip(part.held.rows, part.epochs.tolist(), strict=True)
    ]


def all_of(epochs: Sequence[PlacedEpoch], cut: int = 0) -> list[Tenure]:
    """What is reported of them if at a cut the epoch after it goes on."""
    range_ownership = RangeOwnership()
    open_then = [epoch._replace(until=None) for epoch in epochs[cut : cut + 1]]
    ended = [*range_ownership.follow([*epochs[:cut], *open_then]), *range_ownership.follow(epochs[cut:])]
    return [row for part in ended + range_ownership.going_on() for row in rows_of(part)]


def holds(tenure: Tenure, epoch: int) -> bool:
    return tenure.began.epoch <= epoch and (tenure.last_epoch is None or epoch <= tenure.last_epoch)


@given(st.sampled_from(KINDS), st.lists(st.sampled_from([1, 2, 3, 9]), max_size=12), st.integers(0, 12))
def test_of_each_epoch_the_ranges_are_those_that_hold_in_it(kind: SelectorKind, consumers: list[int], cut: int) -> None:
    epochs = placed(epochs_of(kind, consumers))
    found = all_of(epochs, cut)
    for epoch, since, until in epochs:
        inside = [tenure for tenure in found if holds(tenure, epoch.number)]
        assert sorted(tenure.held for tenure in inside) == sorted(epoch.owned.rows)
        assert all(tenure.name == epoch.names[tenure.held[2]] for tenure in inside)
        assert {t.began.since for t in inside if t.began.epoch == epoch.number} <= {since}
        assert {t.until for t in inside if t.last_epoch == epoch.number} <= {until}


@given(st.sampled_from(KINDS), st.lists(st.sampled_from([1, 2, 3, 9]), max_size=12))
def test_a_range_that_stays_is_one_tenure(kind: SelectorKind, consumers: list[int]) -> None:
    found = all_of(placed(epochs_of(kind, consumers)))
    for tenure in found:
        assert not any(other.held == tenure.held and holds(other, tenure.began.epoch - 1) for other in found)
        assert (tenure.until is None) == (tenure.last_epoch is None)


def test_it_begins_with_the_change_that_gave_the_range() -> None:
    epochs = placed(epochs_of("auto_split", [1, 2, 3]))
    (first,) = (tenure for tenure in all_of(epochs) if tenure.began.epoch == 0)
    assert first.began == (0, _place(1), "join c1", epochs[0].epoch.hashes_moved)
    assert (first.last_epoch, first.until) == (0, _place(2))


def test_what_was_before_epochs_that_nobody_knows_does_not_go_on_behind_them() -> None:
    first, _, third = placed(epochs_of("consistent_hashing", [1, 2, 2]))
    assert first.epoch.owned.rows == third.epoch.owned.rows
    found = all_of([first, third])
    assert {t.until for t in found if t.began.epoch == first.epoch.number} == {first.until}
    assert {(t.began.epoch, t.began.since) for t in found if t.until is None} == {(2, third.since)}


def test_a_range_that_several_share_goes_on_for_each_of_them() -> None:
    log = AssignmentLog("consistent_hashing", points=5, profile="pulsar-3.0.0")
    for seq, name in enumerate(("same", "same", "other"), 1):
        join(log, seq, name, seq)
    assert log.current is not None
    epochs = placed([*log.take_closed(), log.current])
    before = {(held[0], held[1]) for held in epochs[0].epoch.owned.rows}
    rows = [row for row in all_of(epochs) if row.until is None]
    untouched = [row for row in rows if row.held[:2] in before]
    assert len(untouched) >= 2
    assert {(row.held[2], row.began.epoch) for row in untouched} == {(1, 0), (2, 1)}
