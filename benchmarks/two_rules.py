"""Two rules of the audit as people write them without it: window functions over a key, in SQL for two engines.

They are partitioned by the key of a topic, because no engine has Pulsar's murmur: what the audit checks a hash, these
check a key. And they take each row for a moment, where the audit takes start and end for an interval.
`plan_polars` holds the same for Polars; all engines give equal counts.
"""

from typing import Literal, NamedTuple

NEVER = 2**63 - 1
"""The seq of an acknowledgement that does not come."""

Explode = Literal["explode", "unnest"]
"""What an engine calls the function that makes a row of each element: Spark `explode`, DuckDB `unnest`."""


class Broken(NamedTuple):
    """How often each rule is broken.

    Attributes:
        first_delivery_order: first dispatches of a position after the first dispatch of a later position of its key.
        single_holder: dispatches to another consumer than the dispatch before, while an earlier dispatch of the key is
            unacknowledged. Those that a leave sends again are among them.
    """

    first_delivery_order: int
    single_holder: int


def sent(events: str, topic: str = "topic", key: str = "key") -> str:
    """SQL with the dispatches.

    Args:
        events: the table of the rows of a trace.
        topic: what stands for a topic, such as a number that an engine hashes it to.
        key: what stands for a key of a topic; the queries partition by it alone.
    """
    return (
        f"SELECT {topic} AS topic, {key} AS key, seq, ledger_id, entry_id, consumer FROM {events} "
        "WHERE event = 'dispatch' AND phase = 'start'"
    )


def acked(events: str, explode: Explode, topic: str = "topic") -> str:
    """SQL with the positions that are acknowledged.

    Args:
        events: the table of the rows of a trace.
        explode: by its name in the engine.
        topic: as in `sent`.
    """
    return f"""
        SELECT topic, seq, position.ledger_id AS ledger_id, position.entry_id AS entry_id FROM (
            SELECT {topic} AS topic, seq, {explode}(positions) AS position FROM {events}
            WHERE event = 'ack' AND coalesce(phase, 'end') = 'end'
        )
    """


FIRST_DELIVERY_ORDER = """
    WITH firsts AS (
        SELECT topic, key, ledger_id, entry_id, min(seq) AS seq FROM sent GROUP BY topic, key, ledger_id, entry_id
    ),
    followed AS (
        SELECT topic, ledger_id, entry_id,
            lag(ledger_id) OVER of_key AS ledger_before,
            lag(entry_id) OVER of_key AS entry_before
        FROM firsts
        WINDOW of_key AS (PARTITION BY key ORDER BY seq)
    )
    SELECT topic FROM followed
    WHERE ledger_before > ledger_id OR (ledger_before = ledger_id AND entry_before > entry_id)
"""
"""SQL with the topic of each dispatch that `Broken.first_delivery_order` counts, from `sent`."""

SINGLE_HOLDER = f"""
    WITH held AS (
        SELECT sent.topic, sent.key, sent.seq, sent.consumer, coalesce(min(acked.seq), {NEVER}) AS acked_seq
        FROM sent LEFT JOIN acked
            ON acked.topic = sent.topic AND acked.ledger_id = sent.ledger_id AND acked.entry_id = sent.entry_id
            AND acked.seq > sent.seq
        GROUP BY sent.topic, sent.key, sent.seq, sent.consumer
    ),
    followed AS (
        SELECT topic, seq, consumer,
            lag(consumer) OVER (PARTITION BY key ORDER BY seq) AS consumer_before,
            max(acked_seq) OVER (
                PARTITION BY key ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS held_until
        FROM held
    )
    SELECT topic FROM followed WHERE consumer_before <> consumer AND held_until > seq
"""
"""SQL with the topic of each dispatch that `Broken.single_holder` counts, from `sent` and `acked`."""


def counted(rule: str) -> str:
    """SQL with one row and one column: how many rows a rule has."""
    return f"SELECT count(*) FROM ({rule})"
