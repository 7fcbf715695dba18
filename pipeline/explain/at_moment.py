"""The state of a subscription at a moment, from the tables of its run; the trace is not read."""

from dataclasses import dataclass
from typing import Any

from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.tables.tables import Tables, of_run

Row = dict[str, Any]


@dataclass(frozen=True)
class StateAtMoment:
    """A subscription at a moment; rows of the tables.

    Attributes:
        group: the subscription.
        ts_us: the moment.
        consumers: the connected consumers.
        ranges: of `assignments`, by the first hash.
        draining: the draining hashes.
        blocks: the open intervals of waiting, the longest first.
    """

    group: Group
    ts_us: int
    consumers: tuple[Row, ...]
    ranges: tuple[Row, ...]
    draining: tuple[Row, ...]
    blocks: tuple[Row, ...]

    def ranges_of(self, consumer: Row) -> list[Row]:
        """The ranges of hashes that a consumer owns."""
        same = (consumer["broker"], consumer["consumer"])
        return [row for row in self.ranges if (row["broker"], row["consumer"]) == same]


def moment_at(tables: Tables, run_key: str, group: Group, ts_us: int) -> StateAtMoment:
    """Returns the state of a subscription at a moment."""

    def rows(table: str, begin: str, end: str, order: str) -> tuple[Row, ...]:
        open_then = f"({begin} IS NULL OR {begin} <= {ts_us}) AND ({end} IS NULL OR {end} > {ts_us})"
        found = tables.query(table, "*", f"WHERE {of_run(run_key)} AND {open_then} ORDER BY {order}")
        # Not in the SQL: Spark and DataFusion read a name with a backslash in it differently.
        return tuple(row for row in found if (row["topic"], row["subscription"]) == group)

    interval = ("from_ts_us", "to_ts_us")
    return StateAtMoment(
        group,
        ts_us,
        rows("consumers", "joined_at_us", "left_at_us", "consumer"),
        rows("assignments", *interval, "range_start"),
        rows("draining", *interval, "from_seq, sticky_hash"),
        rows("blocking", *interval, "message_seconds DESC, from_seq, cause"),
    )
