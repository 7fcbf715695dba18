"""Rows that travel beside the packed events, because there are few of them and nothing in the hot loop reads one.

Rows `settings` say what is in force from a row on; rows `heartbeat`, `hang` and `end` are what recorders say of
themselves (TRACE_FORMAT).
"""

import json
from typing import Final, NamedTuple

import pyarrow as pa

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.trace.checks.setting_values import as_json

SETTINGS_COLUMNS: Final = ("seq", "ts_us", "subscription", "seq_begin", "settings", "sources")
RECORDER_COLUMNS: Final = ("seq", "ts_us", "event", "phase", "subscription", "begun_us", "waits_for")


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
    """The rows `settings` of a batch with `SETTINGS_COLUMNS`, which holds no others."""
    columns = [rows.column(name).to_pylist(maps_as_pydicts="strict") for name in SETTINGS_COLUMNS]
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


@checkpointed("recorder_row")
class RecorderRow(NamedTuple):
    """A row `heartbeat`, `hang` or `end`."""

    seq: int  # the number of the row
    ts_us: int  # the time of the row
    event: str  # one of the three names
    over: bool  # of a hang, whether the snapshot has ended
    shared: bool  # whether it concerns every topic of its recorder
    begun_us: int  # of a hang, when the snapshot began; -1: it is none
    waits_for: str  # of a hang, for which locks the snapshot waits and who holds them; empty: the row does not say


def recorder_rows(rows: pa.RecordBatch) -> list[RecorderRow]:
    """The rows of a batch with `RECORDER_COLUMNS`, which holds no others."""
    columns = [rows.column(name).to_pylist() for name in RECORDER_COLUMNS]
    return [
        RecorderRow(seq, ts_us, event, phase != "start", name is None, -1 if begun is None else begun, waits_for or "")
        for seq, ts_us, event, phase, name, begun, waits_for in zip(*columns, strict=True)
    ]
