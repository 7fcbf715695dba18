"""Keys of several partitions of one topic, from rows of `hot_keys`."""

from dispatch_audit.pipeline.report.keys import spread_keys, spread_line
from dispatch_audit.pipeline.report.summary import SpreadKey

ORDERS = "persistent://shop/eu/orders"


def _row(topic: str, key: str | None) -> dict[str, str | None]:
    return {"topic": topic, "key": key, "subscription": "workers"}


def test_a_key_of_two_partitions_of_a_topic() -> None:
    rows = [_row(f"{ORDERS}-partition-{number}", "k") for number in (10, 2, 2)]

    assert spread_keys(rows) == (SpreadKey(ORDERS, "k", (2, 10)),)
    assert spread_line(spread_keys(rows)).startswith(f"key k came to several partitions of {ORDERS} (2, 10), and order")


def test_partitions_of_other_topics_and_keys_that_are_not_recorded_are_none() -> None:
    rows = [_row(f"{ORDERS}-partition-0", "k"), _row(f"{ORDERS}-RETRY-partition-1", "k"), _row(ORDERS, "k")]
    rows += [_row(f"{ORDERS}-partition-{number}", None) for number in range(2)]

    assert spread_keys(rows) == ()
