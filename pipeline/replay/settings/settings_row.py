"""Rows `settings`: what was in force from a row on (TRACE_FORMAT, "Settings").

They travel beside the packed events, because there are few of them and nothing in the hot loop reads one.
"""

from typing import NamedTuple


class SettingsRow(NamedTuple):
    """A row `settings` of the trace, as it travels.

    Attributes:
        seq: the values are in force from this row on.
        ts_us: the time of the row.
        seq_begin: the former values were certainly in force up to this row; `seq`: the change is at the row.
        own_seq: the number of the row as its recorder wrote it.
        shared: whether it holds for all subscriptions of its topic.
        anew: whether what earlier rows said no longer holds: another broker owns the topic from here on.
        values: names to values, as JSON.
        sources: names to where the values come from, as JSON.
    """

    seq: int
    ts_us: int
    seq_begin: int
    own_seq: int
    shared: bool
    anew: bool
    values: str
    sources: str
