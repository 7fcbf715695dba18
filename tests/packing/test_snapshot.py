"""A snapshot as it is read: what the broker did not say is None, and positions are pairs."""

import json

import pytest

from dispatch_audit.pipeline.packing.snapshot import (
    NOT_SAID,
    Snapshot,
    StatsRow,
    parsed_position,
    parsed_snapshot,
)
from dispatch_audit.pipeline.replay.timeline.snapshot_views import FormerConsumers


def _parsed(**values: object) -> Snapshot:
    return parsed_snapshot(StatsRow(7, 9, json.dumps(values)))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("3:25", (3, 25)),
        ("3:-1", (3, -1)),
        ("999999999999999999:0", (999_999_999_999_999_999, 0)),
        (None, None),
        ("", None),
        ("3", None),
        ("3:", None),
        ("-1:-1", None),
        ("3:25:0", None),
        (" 3:25", None),
        ("9999999999999999999:0", None),
    ],
)
def test_positions(text: str | None, position: tuple[int, int] | None) -> None:
    assert parsed_position(text) == position


def test_what_is_absent_is_none_and_the_row_bounds_it() -> None:
    assert _parsed() == Snapshot(7, 9, 7, 7, None, None, None, None, None, ())


def test_what_is_null_is_none() -> None:
    values = {"seq_begin": None, "seq_end": None, "msg_in_replay": None, "read_position": None, "consumers": None}
    assert _parsed(**values) == _parsed()


def test_everything_of_the_subscription() -> None:
    values = {"seq_begin": 0, "seq_end": 4, "msg_in_replay": 0, "read_position": "2:1", "mark_delete_position": "1:9"}
    assert _parsed(**values) == Snapshot(7, 9, 0, 4, 0, None, (2, 1), (1, 9), None, ())


@pytest.mark.parametrize(
    ("normal", "replay", "reads"),
    [(True, False, True), (False, True, True), (False, False, False), (None, False, None)],
)
def test_a_dispatcher_waits_for_either_read(normal: bool | None, replay: bool, reads: bool | None) -> None:
    values = {"subscription_have_pending_read": normal, "subscription_have_pending_replay_read": replay}
    assert _parsed(**values).reads == reads


def test_everything_of_a_consumer() -> None:
    (consumer,) = _parsed(
        consumers=[
            {
                "consumer": 4,
                "available_permits": -3,
                "unacked_messages": 0,
                "key_hash_ranges": [[1, 5], [9, 9]],
                "draining_hashes": [{"hash": 8, "unacked_messages": 2}, {"hash": 9}],
                "read_position_when_joining": "2:0",
            }
        ]
    ).consumers
    assert (consumer.consumer, consumer.permits, consumer.unacked) == (4, -3, 0)
    assert consumer.ranges == frozenset({(1, 5), (9, 9)})
    assert consumer.draining == {8: 2, 9: 0}
    assert consumer.joined_at == (2, 0)


def test_nothing_drains_is_not_the_same_as_nothing_was_said() -> None:
    values = _parsed(consumers=[{"consumer": 1}, {"consumer": 2, "draining_hashes": [], "key_hash_ranges": []}])
    assert [consumer.draining for consumer in values.consumers] == [None, {}]
    assert [consumer.ranges for consumer in values.consumers] == [None, frozenset()]


def test_ranges_that_came_and_went_are_put_onto_those_of_the_snapshot_before() -> None:
    latest = FormerConsumers()

    def ranges_of(seq: int, *consumers: dict[str, object]) -> list[list[tuple[int, int]] | None]:
        found = latest.filled(parsed_snapshot(StatsRow(seq, 0, json.dumps({"consumers": list(consumers)}))))
        return [None if consumer.ranges is None else sorted(consumer.ranges) for consumer in found.consumers]

    all_of_one = {"consumer": 1, "key_hash_ranges": [[0, 9], [20, 29]]}
    assert ranges_of(1, all_of_one) == [[(0, 9), (20, 29)]]
    changed = {"consumer": 1, "key_hash_ranges_changed": [[20, 29], [20, 24]]}
    joined = {"consumer": 2, "key_hash_ranges": [[25, 29]]}
    assert ranges_of(2, changed, joined) == [[(0, 9), (20, 24)], [(25, 29)]]
    assert ranges_of(3, {"consumer": 1}, {"consumer": 2}) == [[(0, 9), (20, 24)], [(25, 29)]]
    # What came and went says nothing of a consumer whose ranges are not known.
    latest = FormerConsumers()
    assert ranges_of(4, changed) == [None]
    # Rows up to 7 are missing, and a snapshot may be between any two of them.
    assert ranges_of(5, all_of_one) == [[(0, 9), (20, 29)]]
    latest.lose(7)
    assert ranges_of(6, all_of_one) == [[(0, 9), (20, 29)]]
    assert ranges_of(8, changed) == [None]
    assert ranges_of(9, all_of_one) == [[(0, 9), (20, 29)]]
    assert ranges_of(10, changed) == [[(0, 9), (20, 24)]]


def test_a_consumer_that_is_as_before_is_what_it_was_but_for_what_is_said() -> None:
    former = FormerConsumers()

    def filled(seq: int, **values: object) -> Snapshot:
        return former.filled(parsed_snapshot(StatsRow(seq, 0, json.dumps(values))))

    drains = {"draining_hashes": [{"hash": 5, "unacked_messages": 2, "blocked_attempts": 1}]}
    (one,) = filled(
        1, consumers=[{"consumer": 1, "available_permits": 3, "key_hash_ranges": [[0, 9]], **drains}]
    ).consumers
    assert filled(2, consumers=[], consumers_as_before=[{"consumer": 1}]).consumers == (one,)
    changed = {"consumer": 1, "unacked_messages": 0, "draining_hashes": [], "key_hash_ranges_changed": [[20, 29]]}
    (now,) = filled(3, consumers_as_before=[changed]).consumers
    assert (now.permits, now.unacked, now.draining, now.refused) == (3, 0, {}, {})
    assert now.ranges == frozenset({(0, 9), (20, 29)})
    # One that is written whole, but for its ranges, says no more than that: others are what the snapshot is about.
    found = filled(4, consumers=[{"consumer": 1}], consumers_as_before=[{"consumer": 2, "available_permits": 7}])
    assert found.consumers == (
        NOT_SAID._replace(consumer=2, permits=7),
        NOT_SAID._replace(consumer=1, ranges=now.ranges),
    )
    # A row that is missing may be the snapshot that the next one refers to.
    former.lose(5)
    assert filled(6, consumers_as_before=[changed]).consumers == (
        NOT_SAID._replace(consumer=1, unacked=0, draining={}, changed=frozenset({(20, 29)})),
    )
