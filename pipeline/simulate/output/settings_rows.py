"""The rows `settings` of a simulation: what its recorder saw of settings that change while the broker runs.

A recorder looks at the settings now and then (TRACE_FORMAT): its row comes after the change, and `seq_begin` is the
last row before it looked the time before.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from dispatch_audit.pipeline.simulate.output.event_log import CHANGED_HERE, CHANGED_SINCE, LOOKED_AT, EventLog

RecordedSettings: TypeAlias = Literal["not", "exactly", "late"]

Values: TypeAlias = Mapping[str, int | bool | None]

# The recorder sees the effective value and where it comes from.
_BY_POLICY = "topic"


class SettingsRecorder:
    """Writes what changed since the last look to the log."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._seen: dict[str, int | bool | None] = {}

    def changed(self, now_us: int, values: Values) -> None:
        """Settings change now, and the recorder knows."""
        self._log.settings(now_us, json.dumps(dict(values)), CHANGED_HERE)

    def look(self, now_us: int, in_force: Values) -> None:
        """Looks at the settings that may change; one that is gone is back at its default."""
        other = {name: value for name, value in in_force.items() if name not in self._seen or self._seen[name] != value}
        gone = {name: None for name, value in self._seen.items() if value is not None and name not in in_force}
        self._seen.update({**other, **gone})
        self._log.settings(now_us, json.dumps({**other, **gone}), CHANGED_SINCE if other or gone else LOOKED_AT)


class SimulatedSettings(NamedTuple):
    """The columns of a row that only rows of this event have; values are texts, as in Parquet."""

    settings: list[tuple[str, str | None]]
    sources: list[tuple[str, str]]
    seq_begin: int | None


class SettingsRows:
    """Makes rows of what the recorder saw, part by part of a log."""

    def __init__(self) -> None:
        self._looked_at: int | None = None

    def taken(self, looks: Sequence[tuple[str, int]], seqs: Sequence[int]) -> list[SimulatedSettings]:
        """The rows, in order.

        Args:
            looks: for each event of a part of a log, the settings as JSON, and `when` of `EventLog.settings`.
            seqs: the seq of the last row before each event.
        """
        rows: list[SimulatedSettings] = []
        for (text, when), seq in zip(looks, seqs, strict=True):
            if when != LOOKED_AT:
                values: Values = json.loads(text)
                begin = self._looked_at if when == CHANGED_SINCE else None
                named = [(name, _text(value)) for name, value in values.items()]
                rows.append(SimulatedSettings(named, [(name, _BY_POLICY) for name in values], begin))
            if when != CHANGED_HERE:
                self._looked_at = seq
        return rows


def _text(value: int | bool | None) -> str | None:
    return None if value is None else json.dumps(value)
