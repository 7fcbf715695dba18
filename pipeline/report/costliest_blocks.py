"""The waits of a run that cost most: by cause, and by the consumer to blame."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from dispatch_audit.pipeline.report.summary import Block, Wait
from dispatch_audit.pipeline.report.widest_scopes import widest_scopes

_Row = dict[str, Any]
# Asks for rows of `blocking`, with `select`, `where` and `rest` of the query.
_Ask = Callable[..., list[_Row]]

_BLOCKS = 5
# Causes of a hash that say where its entries were, and not why.
_WHERE_ENTRIES_WERE: Final = ("replay_queue", "not_read_yet")
_ABOUT_THE_SAME: Final = 0.8
# Without permits, or at its limit of unacknowledged messages, a consumer holds up its own entries.
_SELF = "CASE WHEN cause IN ('no_permits', 'unacked_limit_consumer') THEN {} END"
_BLAMED = {
    "consumer": f"coalesce(blocking_consumer, {_SELF.format('consumer')})",
    "consumer_name": f"coalesce(blocking_consumer_name, {_SELF.format('consumer_name')})",
}


def waits_by_cause(blocking: _Ask) -> list[_Row]:
    """Returns the cause, scope, intervals and message-seconds of each cause, in the scope in which it counts."""
    totals = "cause, scope, count(*) AS intervals, sum(message_seconds) AS message_seconds"
    rows = {(row["cause"], row["scope"]): row for row in blocking(select=totals, rest="GROUP BY cause, scope")}
    scopes = widest_scopes({of: row["message_seconds"] for of, row in rows.items()})
    return [rows[of] for of in scopes.items()]


def costliest_blocks(blocking: _Ask, causes: Sequence[_Row], trace_end_us: int | None) -> list[Block]:
    """Returns the blocks that cost most, those that give a reason before others of about the same cost.

    Args:
        blocking: the query of the table.
        causes: those of `waits_by_cause`.
        trace_end_us: the last time in the trace, up to which open intervals last; None: it has none.
    """
    if not causes:
        return []
    seconds = f"(coalesce(to_ts_us, {'from_ts_us' if trace_end_us is None else trace_end_us}) - from_ts_us) / 1000000.0"
    # The largest struct is that of the interval with the most message-seconds; of equal ones the first in time.
    worst = (
        "named_struct('message_seconds', message_seconds, 'earlier', -from_ts_us, 'sticky_hash', sticky_hash, "
        f"'explanation', explanation, 'from_ts_us', from_ts_us, 'seconds', {seconds}, 'ended_by', ended_by, "
        "'root_positions', root_positions, 'held', blocking_consumer IS NOT NULL AND cause <> 'draining_stuck')"
    )
    group = "cause, topic, subscription, broker"
    rows = blocking(
        select=f"{group}, {', '.join(f'{sql} AS blamed_{name}' for name, sql in _BLAMED.items())}, "
        f"count(*) AS intervals, sum(message_seconds) AS message_seconds, max({seconds}) AS longest_s, "
        f"max({worst}) AS worst",
        where=" OR ".join(f"cause = '{row['cause']}' AND scope = '{row['scope']}'" for row in causes),
        rest=f"GROUP BY {group}, {', '.join(_BLAMED.values())} ORDER BY message_seconds DESC, cause, topic, "
        f"subscription, broker NULLS FIRST, blamed_consumer NULLS FIRST LIMIT {_BLOCKS}",
    )
    return _reasons_first([_block(row) for row in rows])


def _reasons_first(blocks: Sequence[Block]) -> list[Block]:
    """The blocks with those that give a reason before others of about the same cost that only say where entries were.

    The hashes of a subscription that is held up wait in replay or unread for the same time as the subscription does, or
    some moments longer: the reason is what to look at first.
    """
    ranked = list(blocks)
    for block in blocks:
        if block.cause not in _WHERE_ENTRIES_WERE:
            continue
        same = [
            other
            for other in ranked[ranked.index(block) + 1 :]
            if other.cause not in _WHERE_ENTRIES_WERE
            and (other.topic, other.subscription, other.broker) == (block.topic, block.subscription, block.broker)
            and other.message_seconds >= _ABOUT_THE_SAME * block.message_seconds
        ]
        if same:
            ranked.remove(block)
            ranked.insert(ranked.index(same[-1]) + 1, block)
    return ranked


def _block(row: _Row) -> Block:
    worst = row["worst"]
    return Block(
        cause=row["cause"],
        topic=row["topic"],
        subscription=row["subscription"],
        broker=row["broker"],
        consumer=row["blamed_consumer"],
        consumer_name=row["blamed_consumer_name"],
        intervals=row["intervals"],
        message_seconds=row["message_seconds"],
        longest_s=float(row["longest_s"]),
        worst=Wait(
            explanation=worst["explanation"],
            from_ts_us=worst["from_ts_us"],
            seconds=float(worst["seconds"]),
            root_positions=tuple(worst["root_positions"]),
            ended_by=worst["ended_by"],
            held=worst["held"],
        ),
    )
