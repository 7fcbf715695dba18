"""Producers that send entries again which the topic had already, and topics with two kinds of keys."""

from local_replay import HIGH, LOW, Log, tables_of


def told(log: Log, rule: str) -> list[str]:
    return [row["what"] for row in tables_of(log.rows)["violations"] if row["rule"] == rule]


def published(log: Log, ids: range, *, key: bytes = LOW, stamp: int | None = None) -> None:
    for number in ids:
        log.publish(len(log.rows), key, producer_name="p", sequence_id=number, publish_time_ms=stamp)


def sent_again(first: int, stamp: int | None = None) -> Log:
    log = Log()
    log.join(1)
    published(log, range(10), stamp=stamp)
    published(log, range(first, 10), stamp=stamp)
    return log


def test_what_a_producer_sends_again_after_a_reconnect_is_counted() -> None:
    (found,) = told(sent_again(7), "published_twice")
    assert found.startswith("producer p published 3 duplicates: ")
    assert found.endswith("1:12 the first")


def test_a_producer_that_is_made_anew_begins_its_numbers_anew() -> None:
    assert told(sent_again(0), "published_twice") == []
    # Only one that keeps its messages has the same stamps on them.
    (found,) = told(sent_again(0, stamp=5), "published_twice")
    assert found.startswith("producer p published 10 duplicates: ")


def test_chunks_and_other_keys_are_no_duplicates() -> None:
    log = Log()
    log.join(1)
    for number in range(5):
        published(log, range(number, number + 1))
        published(log, range(number, number + 1))
    published(log, range(2, 4), key=HIGH)
    assert told(log, "published_twice") == []


def test_ordering_keys_beside_partition_keys_are_named_with_their_producers() -> None:
    log = Log()
    log.join(1)
    log.publish(0, LOW, producer_name="go", key_source="ordering_key")
    assert told(log, "two_kinds_of_keys") == []
    log.publish(1, LOW, producer_name="java", key_source="partition_key")
    log.publish(2, LOW, producer_name="java", key_source="partition_key")
    (found,) = told(log, "two_kinds_of_keys")
    assert found == "1 entry with an ordering key (by go) and 2 entries with only a key (by java) are in one topic"
