"""The two rules of `benchmarks.two_rules` as lazy frames of Polars, over the Parquet files; of a Delta table too."""

from pathlib import Path

import polars as pl

from benchmarks.plan import Engine, files_in
from benchmarks.two_rules import NEVER, Broken

_POSITION = ["topic", "ledger_id", "entry_id"]


def started() -> Engine:
    """The plan; Polars has nothing to start."""
    return Engine(lambda trace, _: lambda: broken(files_in(trace))._asdict, lambda: None)


def broken(files: Path) -> Broken:
    """Counts both rules.

    Args:
        files: a glob of Parquet files.
    """
    events = pl.scan_parquet(files)
    dispatch_start = (pl.col("event") == "dispatch") & (pl.col("phase") == "start")
    # A number in the place of a topic and its key, and each part of the files read once.
    key = pl.col("topic").hash() ^ pl.col("key").hash(1)
    columns = (pl.col("topic").hash(), key.alias("key"), "seq", "ledger_id", "entry_id", "consumer")
    sent = events.filter(dispatch_start).select(*columns).collect().lazy()
    counts = pl.collect_all([_first_delivery_order(sent), _single_holder(sent, events)])
    return Broken(*(int(count.item()) for count in counts))


def _first_delivery_order(sent: pl.LazyFrame) -> pl.LazyFrame:
    firsts = sent.group_by("key", *_POSITION).agg(pl.col("seq").min())
    ledger, entry = pl.col("ledger_id"), pl.col("entry_id")
    ledger_before, entry_before = (column.shift(1).over("key", order_by="seq") for column in (ledger, entry))
    return firsts.select(((ledger_before > ledger) | ((ledger_before == ledger) & (entry_before > entry))).sum())


def _single_holder(sent: pl.LazyFrame, events: pl.LazyFrame) -> pl.LazyFrame:
    ack_end = (pl.col("event") == "ack") & (pl.col("phase").fill_null("end") == "end")
    acked = events.filter(ack_end).select(pl.col("topic").hash(), "positions", acked_seq="seq").explode("positions")
    acked = acked.select("topic", "acked_seq", *(pl.col("positions").struct.field(name) for name in _POSITION[1:]))
    later_ack = pl.col("acked_seq").filter(pl.col("acked_seq") > pl.col("seq"))
    held = sent.join(acked, on=_POSITION, how="left").group_by("key", "seq", "consumer")
    consumer = pl.col("consumer")
    consumer_before = consumer.shift(1).over("key", order_by="seq")
    held_until = pl.col("acked_seq").cum_max().shift(1).over("key", order_by="seq")
    return held.agg(later_ack.min().fill_null(NEVER)).select(
        ((consumer_before != consumer) & (held_until > pl.col("seq"))).sum()
    )
