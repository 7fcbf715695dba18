"""Where, inside of its bracket, a membership change is taken to have happened."""

import numpy as np
import pytest
from local_replay import HIGH, LOW, LOWEST, STEP_US, Log, replayed

from dispatch_audit.pipeline.assignment.ranges.routing import routing_of_ranges
from dispatch_audit.pipeline.replay.timeline.change_points import Evidence, locate_changes


def _owned_by_one() -> Log:
    """A consumer, and entries 0 to 9 of which nobody holds any."""
    log = Log()
    log.join(1)
    for entry in range(10):
        log.publish(entry, [LOWEST, LOW, HIGH][entry % 3])
    return log


def _sent(log: Log, consumer: int, entry: int, key: bytes = LOW) -> int:
    """An entry that is acknowledged at once, so that only its owner matters."""
    seq = log.dispatch(consumer, entry, key)
    log.ack(consumer, entry)
    return seq


def _placed(log: Log, change: str) -> int:
    return dict(replayed(log.rows).changes)[change]


def test_without_evidence_it_is_the_middle_in_time() -> None:
    log = _owned_by_one()
    log.join(2, phases="start")
    begun_us = log.now_us - STEP_US
    seqs = []
    for after_us in (10, 20, 30, 900):
        log.now_us = begun_us + after_us
        seqs.append(log.publish(after_us))
    log.now_us = begun_us + 1000
    log.join(2, phases="end")
    assert _placed(log, "join c2") == seqs[2]


def test_a_dispatch_to_the_former_owner_comes_before_it() -> None:
    log = _owned_by_one()
    log.join(2, phases="start")
    log.now_us += 1_000_000
    last = _sent(log, 1, 1)
    log.join(2, phases="end")
    assert _placed(log, "join c2") >= last


def test_a_dispatch_to_the_new_owner_comes_after_it() -> None:
    log = _owned_by_one()
    log.join(2, phases="start")
    first = _sent(log, 2, 1)
    log.now_us += 1_000_000
    log.join(2, phases="end")
    assert _placed(log, "join c2") < first


def test_between_two_dispatches_it_is_the_middle_in_time() -> None:
    log = _owned_by_one()
    log.join(2, phases="start")
    _sent(log, 1, 1)
    before = log.publish(10)
    log.now_us += 9 * STEP_US
    log.publish(11)
    _sent(log, 2, 4)
    log.now_us += 1_000_000
    log.join(2, phases="end")
    assert _placed(log, "join c2") == before


def test_what_does_not_move_shows_nothing() -> None:
    log = _owned_by_one()
    start = log.join(2, phases="start")
    log.now_us += 1_000_000
    _sent(log, 1, 2, HIGH)
    log.join(2, phases="end")
    assert _placed(log, "join c2") == start


def test_what_has_no_key_shows_nothing() -> None:
    log = _owned_by_one()
    log.publish(20, None, producer_name="p", sequence_id=0)
    start = log.join(2, phases="start")
    log.now_us += 1_000_000
    log.dispatch(1, 20, None)
    log.join(2, phases="end")
    assert _placed(log, "join c2") == start


def test_evidence_that_contradicts_itself_leaves_the_fewest_findings() -> None:
    log = _owned_by_one()
    log.join(2, phases="start")
    last = _sent(log, 1, 1)
    first = _sent(log, 2, 4)
    _sent(log, 2, 7)
    stray = _sent(log, 1, 1)
    _sent(log, 2, 1)
    log.join(2, phases="end")
    replay = replayed(log.rows)
    assert last <= dict(replay.changes)["join c2"] < first
    assert [seq for rule, seq in replay.broken if rule == "ownership"] == [stray]


def test_two_changes_at_once_are_told_apart_by_evidence() -> None:
    log = _owned_by_one()
    log.join(2, phases="start")
    log.join(3, phases="start")
    seqs = [_sent(log, consumer, entry, LOWEST) for consumer, entry in ((1, 0), (2, 3), (3, 6))]
    log.join(3, phases="end")
    log.join(2, phases="end")
    replay = replayed(log.rows)
    places = dict(replay.changes)
    assert seqs[0] <= places["join c2"] < seqs[1] <= places["join c3"] < seqs[2]
    assert replay.findings == []


def test_two_changes_at_once_without_evidence_keep_their_order() -> None:
    log = _owned_by_one()
    first, second = log.join(2, phases="start"), log.join(3, phases="start")
    log.publish(10)
    log.join(2, phases="end")
    log.join(3, phases="end")
    places = dict(replayed(log.rows).changes)
    assert first <= places["join c2"] <= places["join c3"]
    assert places["join c3"] >= second


def test_an_earlier_change_leaves_room_for_a_later_one_that_ends_before_it() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    rows = np.arange(20, dtype=np.int64)
    evidence = Evidence(nothing, nothing, nothing, recorded_late=False)
    routing = routing_of_ranges([(0, 65_535, 1)])
    located = locate_changes([(0, 15), (0, 5)], rows, rows * STEP_US, evidence, [routing] * 3)
    places = [place.at for place in located]
    assert [0 <= at.seq < 5 for at in places] == [True, True]
    assert places[0] <= places[1]


@pytest.mark.parametrize("first", [0, 2**40, 2**61])
def test_the_place_is_the_same_however_high_the_seqs_are(first: int) -> None:
    rows = first + np.arange(10, dtype=np.int64)
    sent, hashes = rows[2:8], np.zeros(6, dtype=np.int64)
    to = np.array([1, 1, 1, 1, 2, 2], dtype=np.int64)
    evidence = Evidence(sent, hashes, to, recorded_late=False)
    routings = [routing_of_ranges([(0, 65_535, owner)]) for owner in (1, 2)]
    (located,) = locate_changes([(first, first + 9)], rows, (rows - first) * STEP_US, evidence, routings)
    assert located.at.seq - first == 5


def test_a_change_stays_inside_its_bracket_whatever_the_evidence() -> None:
    log = _owned_by_one()
    early = _sent(log, 1, 0, LOWEST)
    start = log.join(2, phases="start")
    log.join(2, phases="end")
    late = _sent(log, 1, 1)
    replay = replayed(log.rows)
    assert dict(replay.changes)["join c2"] == start
    assert replay.broken == [("ownership", late)]
    assert early < start


def test_the_cutting_of_the_rows_does_not_move_a_change() -> None:
    log = _owned_by_one()
    log.join(2, phases="start")
    _sent(log, 1, 1)
    log.leave(1, phases="start")
    _sent(log, 2, 4)
    log.join(2, phases="end")
    log.publish(10)
    log.leave(1, phases="end")
    places = [replayed(log.rows, rows_per_batch=rows).bytes for rows in (None, 1, 2, 7)]
    assert len(set(places)) == 1
