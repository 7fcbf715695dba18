"""A clean log of a busy subscription, and faults to inject into its middle.

Consumers split the hashes as AutoSplit does: the first one keeps the upper half, the second one gets the lower half.
"""

from collections.abc import Callable, Mapping

from local_replay import AUTO_SPLIT, HIGH, HIGHEST, LOW, LOWEST, Log, reported

from dispatch_audit.pipeline.contract.rules import RuleName

OWNER = {LOWEST: 2, LOW: 2, HIGH: 1, HIGHEST: 1}
KEYS = tuple(OWNER)
BUSY = 60
"""Entries before the fault, and as many after it."""

Fault = Callable[[Log, int], None]
"""Writes a fault; entries from a number on are free."""


def busy(fault: Fault) -> Log:
    """Two consumers with much traffic, a third one that comes and goes, and a fault in the middle."""
    second_from = 2 * BUSY
    log = Log()
    log.join(1)
    log.join(2)
    _traffic(log, 0)
    log.join(3)
    log.leave(3, reason="close_consumer")
    _traffic(log, BUSY // 2)
    fault(log, BUSY)
    _traffic(log, second_from)
    _traffic(log, second_from + BUSY // 2)
    return log


def _traffic(log: Log, first: int) -> None:
    gone = any(row["event"] == "leave" and row["consumer"] == 2 for row in log.rows)
    owner_of = {key: 1 if gone else owner for key, owner in OWNER.items()}
    entries = [(first + number, KEYS[number % len(KEYS)]) for number in range(BUSY // 2)]
    for entry, key in entries:
        log.publish(entry, key)
    for entry, key in entries:
        log.dispatch(owner_of[key], entry, key)
    for entry, key in entries:
        log.ack(owner_of[key], entry)


def _to_another_consumer(log: Log, first: int) -> None:
    log.publish(first, LOW)
    log.dispatch(1, first, LOW)
    log.ack(1, first)


def _while_another_holds_the_hash(log: Log, first: int) -> None:
    log.publish(first, LOW)
    log.publish(first + 1, LOW)
    log.dispatch(2, first, LOW)
    log.dispatch(1, first + 1, LOW)
    log.ack(2, first)
    log.ack(1, first + 1)


def _twice(log: Log, first: int) -> None:
    log.publish(first, LOW)
    log.dispatch(2, first, LOW)
    log.dispatch(2, first, LOW)
    log.ack(2, first)


def _the_later_entry_first(log: Log, first: int) -> None:
    log.publish(first, LOW)
    log.publish(first + 1, LOW)
    log.dispatch(2, first + 1, LOW)
    log.dispatch(2, first, LOW)
    log.ack(2, first, first + 1)


def _a_leavers_entry_last(log: Log, first: int) -> None:
    log.publish(first, LOW)
    log.publish(first + 1, LOW)
    log.dispatch(2, first, LOW)
    log.leave(2, reason="close_consumer")
    log.dispatch(1, first + 1, LOW)
    log.dispatch(1, first, LOW)
    log.ack(1, first, first + 1)


def _without_counting_the_redelivery(log: Log, first: int) -> None:
    log.publish(first, LOW)
    log.dispatch(2, first, LOW, count=0)
    log.redeliver(2, first)
    log.dispatch(2, first, LOW, count=0)
    log.ack(2, first)


def _a_cumulative_acknowledgement(log: Log, first: int) -> None:
    log.publish(first, LOW)
    log.dispatch(2, first, LOW)
    log.ack(2, first, ack_type="cumulative")


def _an_acknowledgement_of_another_consumer(log: Log, first: int) -> None:
    log.publish(first, LOW)
    log.dispatch(2, first, LOW)
    log.ack(1, first)


def _more_than_the_limit(log: Log, first: int) -> None:
    for entry in range(first, first + 8):
        log.publish(entry, LOW)
    for entry in range(first, first + 8):
        log.dispatch(2, entry, LOW)
    log.ack(2, *range(first, first + 8))


def _other_ranges_in_a_snapshot(log: Log, first: int) -> None:
    seq = len(log.rows)
    ranges = {1: [[40_000, 65_535]], 2: [[0, 39_999]]}
    log.snapshot(*(reported(n, key_hash_ranges=ranges[n]) for n in (1, 2)), seq_begin=seq, seq_end=seq)


def _the_ranges_of_another_selector_in_a_snapshot(log: Log, first: int) -> None:
    seq = len(log.rows)
    ranges = {1: [[32_769, 65_536]], 2: [[0, 32_768]]}
    log.snapshot(*(reported(n, key_hash_ranges=ranges[n]) for n in (1, 2)), seq_begin=seq, seq_end=seq)


def _fewer_than_no_messages(log: Log, first: int) -> None:
    seq = len(log.rows)
    log.snapshot(reported(2, unacked_messages=-first - 1), seq_begin=seq, seq_end=seq)


def _a_batch_of_two_keys(log: Log, first: int) -> None:
    log.publish(first, LOW, batch_size=2, batch_keys=["key-2", "key-5"])
    log.dispatch(2, first, LOW, batch_size=2)
    log.ack(2, first)


def _nothing_although_it_could(log: Log, first: int) -> None:
    log.flow(1, 1000)
    log.flow(2, 1000)
    log.publish(first, LOW)
    log.now_us += 120_000_000
    log.dispatch(2, first, LOW)
    log.ack(2, first)


FAULTS: Mapping[RuleName, tuple[Fault, Mapping[str, object]]] = {
    "ownership": (_to_another_consumer, {}),
    "single_holder": (_while_another_holds_the_hash, {}),
    "early_duplicate": (_twice, {}),
    "first_delivery_order": (_the_later_entry_first, {}),
    "replay_overtaken": (_the_later_entry_first, {}),
    "redelivery_order": (_a_leavers_entry_last, {}),
    "redelivery_count": (_without_counting_the_redelivery, {}),
    "cumulative_ack": (_a_cumulative_acknowledgement, {}),
    "foreign_ack": (_an_acknowledgement_of_another_consumer, {}),
    "unacked_limit": (_more_than_the_limit, {"maxUnackedMessagesPerConsumer": 5}),
    "assignment_mismatch": (_other_ranges_in_a_snapshot, {}),
    "settings_mismatch": (
        _the_ranges_of_another_selector_in_a_snapshot,
        {"subscriptionKeySharedUseConsistentHashing": True},
    ),
    "impossible_counter": (_fewer_than_no_messages, {}),
    "mixed_key_batch": (_a_batch_of_two_keys, {}),
    "stalled": (_nothing_although_it_could, {}),
}
"""Faults by the rule that finds them, with the settings of the broker."""


def settings_of(rule: RuleName) -> dict[str, object]:
    """The settings of the broker that a fault is injected into."""
    return {**AUTO_SPLIT, **FAULTS[rule][1]}
