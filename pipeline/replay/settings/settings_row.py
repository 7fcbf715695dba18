"""Rows `settings`: what is in force from a row on (TRACE_FORMAT, "Settings").

They travel beside the packed events, because there are few of them and nothing in the hot loop reads one.
"""

import json
from typing import NamedTuple

import pyarrow as pa

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.trace.checks.setting_values import as_json

COLUMNS = ("seq", "ts_us", "subscription", "seq_begin", "settings", "sources")


@checkpointed("settings_row")
class SettingsRow(NamedTuple):
    """A row `settings` of the trace, as it travels."""

    seq: int  # the values are in force from this row on
    ts_us: int  # the time of the row
    seq_begin: int  # the former values were certainly in force up to this row; `seq`: the change is at the row
    # The row that says so. It is not `seq` where the values are put in force again, because the broker of its recorder
    # owns the topic again; -1: no row says so.
    said_seq: int
    shared: bool  # whether it holds for all subscriptions of its topic
    # Whether its recorder wrote it before or after its rows of the topic, so that its place is that of another row.
    aside: bool
    anew: bool  # whether what earlier rows said no longer holds: another broker owns the topic from here on
    values: str  # names to values, as JSON
    sources: str  # names to where the values come from, as JSON

    @property
    def recorded(self) -> bool:
        """Whether it is a row of the trace, and not its repetition at the beginning of a later term."""
        return self.said_seq == self.seq

    @property
    def of_subscription(self) -> bool:
        """Whether the recorder wrote it at its place, for this subscription only."""
        return self.recorded and not (self.shared or self.aside)


def settings_rows(rows: pa.RecordBatch) -> list[SettingsRow]:
    """The rows `settings` of a batch with `COLUMNS`, which holds no others."""
    columns = [rows.column(name).to_pylist(maps_as_pydicts="strict") for name in COLUMNS]
    return [
        SettingsRow(
            seq,
            ts_us,
            seq if seq_begin is None else seq_begin,
            seq,
            subscription is None,
            False,
            False,
            as_json(settings),
            json.dumps(dict(sorted((sources or {}).items()))),
        )
        for seq, ts_us, subscription, seq_begin, settings, sources in zip(*columns, strict=True)
    ]
