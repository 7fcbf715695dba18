"""Reads what a time line of a run shows: rows of the tables, the costliest first, and how many there are."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from dispatch_audit.pipeline.report.summary import RunSummary
from dispatch_audit.pipeline.tables.tables import Tables, of_run
from dispatch_audit.pipeline.tables.threads import at_one_time

Row = dict[str, Any]

# Viewers stay quick up to some ten thousand slices. Several runs in one file share these.
_WAITS: Final = 20_000
_DRAINING: Final = 5_000
_OWNERSHIPS: Final = 10_000
_CONSUMERS: Final = 1_000
_KEYS: Final = 1_000

_GROUP = "topic, subscription, broker"
_WAIT = (
    f"{_GROUP}, scope, cause, sticky_hash, consumer, consumer_name, blocking_consumer, blocking_consumer_name, "
    "from_ts_us, to_ts_us, message_seconds, entries_waiting, root_positions, ended_by, explanation"
)
_SPAN = (
    f"{_GROUP}, sticky_hash, holder, holder_name, new_owner, new_owner_name, from_ts_us, to_ts_us, entries_at_start, "
    "ended_by"
)
_OWNERSHIP = f"{_GROUP}, consumer, consumer_name, from_ts_us, to_ts_us, change"
_SIZE = "range_end - range_start + 1"
_CONSUMER = (
    f"{_GROUP}, consumer, consumer_name, joined_at_us, left_at_us, leave_reason, dispatched, acked, hash_share, "
    "traffic_share"
)
_TIES = "topic, subscription, broker NULLS FIRST"


@dataclass(frozen=True)
class TimelineRows:
    """Rows of the tables of one run, as mappings by column.

    Attributes:
        waits: rows of `blocking`, those with the most message-seconds first.
        draining: the longest first.
        owned: what a consumer owned between two changes, summed over ranges: `ranges`, `hashes`, and `undecided` hashes
            of them; the earliest first, because a consumer's hashes at a time are a sum over those before.
        consumers: those with the most unacknowledged entries first.
        keys: a key of each hot hash, the hottest first.
        totals: how many rows the run has in `blocking`, `draining`, `assignments` and `consumers`.
    """

    waits: list[Row]
    draining: list[Row]
    owned: list[Row]
    consumers: list[Row]
    keys: list[Row]
    totals: dict[str, int]


def read_rows(tables: Tables, run: RunSummary, shared_by: int) -> TimelineRows:
    """Returns the rows that the time line of a run needs.

    Args:
        tables: of the target.
        run: the summary of the run.
        shared_by: the number of runs that share a file, and so the limits.
    """

    def ask(table: str, select: str, rest: str = "") -> Callable[[], list[Row]]:
        return partial(tables.query, table, select, f"WHERE {of_run(run.run_key)} {rest}")

    def first(limit: int) -> str:
        return f"LIMIT {max(1, limit // shared_by)}"

    last_us = run.to_ts_us or 0
    sums = f"count(*) AS ranges, sum({_SIZE}) AS hashes, "
    sums += f"sum(CASE WHEN undecided IS NULL THEN 0 ELSE {_SIZE} END) AS undecided"
    by_length = f"ORDER BY coalesce(to_ts_us, {last_us}) - from_ts_us DESC, from_seq, sticky_hash, {_TIES}"
    by_cost = f"ORDER BY message_seconds DESC, from_ts_us, scope, cause, {_TIES}, sticky_hash NULLS FIRST, "
    by_cost += "consumer NULLS FIRST, blocking_consumer NULLS FIRST"
    by_time = f"GROUP BY {_OWNERSHIP} ORDER BY from_ts_us, {_TIES}, consumer, to_ts_us NULLS LAST, change"
    counted = ("blocking", "draining", "assignments", "consumers")
    queries = [
        ask("blocking", _WAIT, f"{by_cost} {first(_WAITS)}"),
        ask("draining", _SPAN, f"{by_length} {first(_DRAINING)}"),
        ask("assignments", f"{_OWNERSHIP}, {sums}", f"{by_time} {first(_OWNERSHIPS)}"),
        ask("consumers", _CONSUMER, f"ORDER BY dispatched - acked DESC, consumer, {_TIES} {first(_CONSUMERS)}"),
        ask(
            "hot_keys",
            "topic, subscription, sticky_hash, key, keys_on_hash",
            f"AND key IS NOT NULL ORDER BY dispatched DESC, topic, subscription, sticky_hash, key {first(_KEYS)}",
        ),
        *(ask(table, "count(*) AS number") for table in counted),
    ]
    waits, draining, owned, consumers, keys, *counts = at_one_time(lambda query: query(), queries)
    totals = {table: int(rows[0]["number"]) for table, rows in zip(counted, counts, strict=True)}
    return TimelineRows(waits, draining, owned, consumers, keys, totals)
