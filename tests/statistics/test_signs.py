"""Each sign stands where its counters are, and does not stand where they are nearly so."""

from typing import Any

import pytest
from dumps import FLOWING, LAST_MS, Json, consumer, diagnosis_of, draining, internal, signs, stats

from dispatch_audit.pipeline.contract.signs import sign_texts

FREE = consumer("c2")
HOLDS: Json = {"unackedMessages": 30}
WAIT: Json = {"msgInReplay": 30, "msgBacklog": 60}

FOUND: dict[str, tuple[Json | tuple[Json, ...], str]] = {
    "blocked_without_unacknowledged": (stats(consumer("c1", blockedConsumerOnUnackedMsgs=True), FREE), "proved"),
    "consumer_limit": (stats(consumer("c1", blockedConsumerOnUnackedMsgs=True, **HOLDS), FREE, **WAIT), "proved"),
    "draining_holds_others": (stats(consumer("c1", **HOLDS, **draining(2, 7)), FREE, **WAIT), "proved"),
    "draining_beyond_held": (stats(consumer("c1", unackedMessages=2, **draining(35, 0, 2)), FREE, **WAIT), "proved"),
    "permits_not_returned": (stats(consumer("c1", availablePermits=-420), FREE, msgBacklog=60), "proved"),
    "hangs": (stats(consumer("c1", availablePermits=0, **HOLDS), FREE, **WAIT), "proved"),
    "no_permits": (stats(consumer("c1", availablePermits=0, **HOLDS), msgBacklog=500), "proved"),
    "subscription_limit": (
        stats(consumer("c1", **HOLDS), FREE, msgBacklog=500, blockedSubscriptionOnUnackedMsgs=True),
        "proved",
    ),
    "look_ahead_limit": (stats(consumer("c1", **HOLDS), FREE, msgInReplay=4000, msgBacklog=9000), "proved"),
    "hash_gap": (
        stats(
            consumer("c1", keyHashRangeArrays=[[0, 20000]]),
            consumer("c2", keyHashRangeArrays=[[30000, 65535]]),
            keySharedMode="STICKY",
            **WAIT,
        ),
        "proved",
    ),
    "without_ranges": (stats(consumer("c1", keyHashRangeArrays=[]), FREE), "proved"),
    "recently_joined": (
        stats(consumer("c1", unackedMessages=1), FREE, consumersAfterMarkDeletePosition={"c2": "3:40"}, msgBacklog=60),
        "proved",
    ),
    "delayed_before_joined": (
        stats(FREE, consumersAfterMarkDeletePosition={"c2": "3:40"}, msgBacklog=500, msgDelayed=136),
        "proved",
    ),
    "parked_with_replay": ((stats(FREE, **WAIT), internal(waiting=True)), "proved"),
    "parked_with_replay_out_of_order": (
        (stats(FREE, allowOutOfOrderDelivery=True, **WAIT), internal(waiting=True)),
        "proved",
    ),
    "replay_not_served": (stats(FREE, **WAIT), "proved"),
    "pending_read_that_is_none": (
        (stats(FREE, msgBacklog=60), internal(read="3:40", waiting=False)),
        "compatible",
    ),
    "nothing_is_read": ((stats(FREE, msgBacklog=60), internal(read="3:40", waiting=False, have=False)), "proved"),
    "nothing_moves": (
        (
            stats(FREE, msgBacklog=60),
            stats(FREE, msgBacklog=60),
            internal(read="3:40", waiting=True),
            internal(read="3:40", waiting=True),
        ),
        "proved",
    ),
    "not_acknowledging": ((stats(consumer("c1", **HOLDS), msgBacklog=30), internal(waiting=True)), "compatible"),
    "unacknowledged_below_zero": (stats(consumer("c1", unackedMessages=-4), FREE), "proved"),
    "total_below_consumers": (stats(consumer("c1", **HOLDS), unackedMessages=4, msgBacklog=30), "proved"),
    "unacknowledged_beyond_backlog": (stats(consumer("c1", unackedMessages=400), FREE, msgBacklog=143), "proved"),
    "rate_limited": (stats(FREE, dispatchThrottledMsgEventsBySubscriptionLimit=7), "compatible"),
    "entry_filter": (stats(FREE, filterRejectedMsgCount=7), "compatible"),
    "expired": (stats(FREE, totalMsgExpired=7), "proved"),
    "sent_again": (stats(FREE, msgRateOut=10.0, msgRateRedeliver=5.0), "compatible"),
    "unaccounted": ((stats(FREE, msgBacklog=60), internal(waiting=True)), "compatible"),
    "many_holes": (stats(FREE, nonContiguousDeletedMessagesRanges=10_001), "proved"),
    "equal_names": (stats(consumer("c1"), consumer("c1", address="/10.0.0.9:1")), "proved"),
}

NEARLY: dict[str, Json | tuple[Json, ...]] = {
    "blocked_without_unacknowledged": stats(consumer("c1", blockedConsumerOnUnackedMsgs=True, **HOLDS), FREE),
    "consumer_limit": stats(consumer("c1", **HOLDS), FREE, **WAIT),
    # Hashes that drain, and that nobody was refused.
    "draining_holds_others": stats(consumer("c1", **HOLDS, **draining(2, 0)), FREE, **WAIT),
    # An entry may be a batch of several messages.
    "draining_beyond_held": stats(consumer("c1", unackedMessages=70, **draining(35, 0, 2)), FREE, **WAIT),
    # Below 0 within a batch: it holds the messages.
    "permits_not_returned": stats(consumer("c1", availablePermits=-420, unackedMessages=500), FREE, msgBacklog=600),
    "hangs": stats(consumer("c1", availablePermits=0, messageAckRate=3.0, **HOLDS), FREE, **WAIT),
    "no_permits": stats(consumer("c1", availablePermits=0, **HOLDS, **FLOWING), msgBacklog=500),
    "subscription_limit": stats(consumer("c1", **HOLDS), FREE, msgBacklog=500),
    "look_ahead_limit": stats(consumer("c1", **HOLDS), FREE, msgInReplay=3999, msgBacklog=9000),
    # Ranges of one hash are missing in what brokers up to 4.0.6 report.
    "hash_gap": stats(
        consumer("c1", keyHashRangeArrays=[[0, 20000]]),
        consumer("c2", keyHashRangeArrays=[[20002, 65535]]),
        keySharedMode="STICKY",
        **WAIT,
    ),
    "without_ranges": stats(consumer("c1", keyHashRangeArrays=[]), consumer("c2", keyHashRangeArrays=[])),
    "recently_joined": stats(consumer("c1", unackedMessages=1), FREE, msgBacklog=60),
    # Somebody holds a message that is older than the join.
    "delayed_before_joined": stats(
        consumer("c1", unackedMessages=1),
        FREE,
        consumersAfterMarkDeletePosition={"c2": "3:40"},
        msgBacklog=500,
        msgDelayed=136,
    ),
    "parked_with_replay": (stats(FREE, **WAIT), internal(read="3:40", waiting=True)),
    "parked_with_replay_out_of_order": (stats(FREE, **WAIT), internal(waiting=True)),
    "replay_not_served": stats(FREE, **WAIT, **FLOWING),
    "pending_read_that_is_none": (stats(FREE, msgBacklog=60), internal(read="3:40", waiting=False, pending=1)),
    "nothing_is_read": (stats(FREE, msgBacklog=60), internal(read="3:40", waiting=False, pending=1, have=False)),
    "nothing_moves": (stats(FREE, msgBacklog=60), stats(consumer("c2", msgOutCounter=101), msgBacklog=60)),
    "not_acknowledging": (stats(consumer("c1", **HOLDS, **FLOWING), msgBacklog=30), internal(waiting=True)),
    "unacknowledged_below_zero": stats(consumer("c1"), FREE),
    # The consumer says it too, which is another fault.
    "total_below_consumers": stats(consumer("c1", unackedMessages=-4), unackedMessages=-4),
    "unacknowledged_beyond_backlog": stats(
        consumer("c1", unackedMessages=400, avgMessagesPerEntry=5), FREE, msgBacklog=143
    ),
    "rate_limited": stats(FREE, dispatchThrottledMsgEventsBySubscriptionLimit=0),
    "entry_filter": stats(FREE, filterRejectedMsgCount=0, filterRescheduledMsgCount=0),
    "expired": stats(FREE, totalMsgExpired=0),
    "sent_again": stats(FREE, msgRateOut=10.0, msgRateRedeliver=4.9),
    "unaccounted": (stats(consumer("c1", **HOLDS), msgBacklog=31), internal(waiting=True)),
    "many_holes": stats(FREE, nonContiguousDeletedMessagesRanges=10_000),
    "equal_names": stats(consumer("c1"), consumer("c2")),
}


def given(documents: Json | tuple[Json, ...]) -> tuple[Json, ...]:
    return documents if isinstance(documents, tuple) else (documents,)


@pytest.mark.parametrize("name", sign_texts())
def test_a_sign_stands_where_its_counters_are(name: str) -> None:
    documents, certainty = FOUND[name]
    assert signs(diagnosis_of(*given(documents)))[name] == certainty


@pytest.mark.parametrize("name", sign_texts())
def test_a_sign_does_not_stand_where_its_counters_are_nearly_so(name: str) -> None:
    assert name not in signs(diagnosis_of(*given(NEARLY[name])))


MOMENTS = ["blocked_without_unacknowledged", "consumer_limit", "draining_holds_others", "permits_not_returned", "hangs"]


@pytest.mark.parametrize("taken_ms", [None, LAST_MS + 9_000])
@pytest.mark.parametrize("name", MOMENTS)
def test_what_may_be_a_moment_is_not_proved_without_a_time_or_soon_after_a_send(
    name: str, taken_ms: int | None
) -> None:
    diagnosis = diagnosis_of(*given(FOUND[name][0]), taken_ms=taken_ms)

    assert signs(diagnosis)[name] == "compatible"
    assert not diagnosis.is_alarm
    assert "Poll again after 10 s" in diagnosis.reasons[0].decide


@pytest.mark.parametrize(("later", "certainty"), [({}, "proved"), ({"msgOutCounter": 105}, "compatible")])
def test_two_dumps_decide_what_one_does_not(later: dict[str, Any], certainty: str) -> None:
    full = {"availablePermits": 0, "unackedMessages": 30}
    before = stats(consumer("c1", **full), FREE, **WAIT)
    after = stats(consumer("c1", **full, **later), FREE, **WAIT)
    # Work on one message may take so long, but not ten seconds more.
    at = LAST_MS + 55_000

    assert signs(diagnosis_of(before, taken_ms=at)) == {"hangs": "compatible"}
    assert signs(diagnosis_of(before, after, taken_ms=at)).get("hangs", "compatible") == certainty
    assert "proved" not in signs(diagnosis_of(before, after, taken_ms=None)).values()


def test_hashes_that_keep_draining_prove_a_wait_although_others_flow() -> None:
    def moment(attempts: int, sent: int) -> Json:
        slow = consumer("slow", unackedMessages=30, msgOutCounter=sent, **draining(2, attempts))
        return stats(slow, FREE, **WAIT)

    flowing = diagnosis_of(moment(7, 100), moment(90, 140))
    assert signs(flowing) == {"draining_holds_others": "proved"}
    assert flowing.headline.endswith("Other messages flow.")
    # Nobody was refused between the dumps.
    assert signs(diagnosis_of(moment(7, 100), moment(7, 140))) == {"draining_holds_others": "compatible"}


def test_a_dump_taken_soon_after_a_send_raises_no_alarm() -> None:
    full = stats(consumer("c1", availablePermits=0, **HOLDS), msgBacklog=500)

    assert diagnosis_of(full, taken_ms=LAST_MS + 3000).answer == "flowing"
    # It may work on one message for as long as this.
    assert diagnosis_of(full, taken_ms=LAST_MS + 59_000).answer == "not_decidable"
    assert diagnosis_of(full, taken_ms=LAST_MS + 60_000).answer == "held_up"
    assert diagnosis_of(full, taken_ms=None).answer == "not_decidable"


def test_the_sum_over_partitions_proves_no_wait() -> None:
    document = stats(consumer("c1", availablePermits=0, **HOLDS), FREE, **WAIT) | {"partitions": {}}
    diagnosis = diagnosis_of(document)

    assert signs(diagnosis) == {"hangs": "compatible"}
    assert "--per-partition" in diagnosis.lacks[0]


@pytest.mark.parametrize(
    ("version", "limit"), [(None, 4000), ("4.0.8", 4000), ("5.0.1", 8000)], ids=["unknown", "4.0.8", "5.0.1"]
)
def test_the_look_ahead_limit_is_that_of_the_release(version: str | None, limit: int) -> None:
    def at(replay: int) -> Json:
        return stats(consumer("c1", **HOLDS), FREE, msgInReplay=replay, msgBacklog=90_000)

    assert "look_ahead_limit" in signs(diagnosis_of(at(limit), version=version))
    assert "look_ahead_limit" not in signs(diagnosis_of(at(limit - 1), version=version))


@pytest.mark.parametrize("absent", ["blockedConsumerOnUnackedMsgs", "drainingHashesCount"])
def test_what_keeps_replay_is_open_where_a_counter_of_it_is_absent(absent: str) -> None:
    document = stats(consumer("c1", **{absent: None}), **WAIT)
    assert "replay_not_served" not in signs(diagnosis_of(document))


def test_3x_has_no_look_ahead_limit() -> None:
    old = {"drainingHashesCount": None, "keyHashRangeArrays": None, "keyHashRanges": ["[0, 2147483646]"]}
    document = stats(consumer("c1", **HOLDS, **old), msgInReplay=40_000, msgBacklog=90_000)
    assert "look_ahead_limit" not in signs(diagnosis_of(document))


@pytest.mark.parametrize(("name", "counted"), [("replay_not_served", 0), ("nothing_moves", None)])
def test_what_entry_filters_may_have_put_off_is_not_proved_to_be_stuck(name: str, counted: int | None) -> None:
    free = consumer("c2", drainingHashesCount=counted)
    for number, certainty in ((0, "proved"), (89_000, "compatible")):
        assert signs(diagnosis_of(stats(free, filterRescheduledMsgCount=number, **WAIT)))[name] == certainty
