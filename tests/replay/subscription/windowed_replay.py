"""Audits rows window by window, and folds what the windows report into what one audit of all rows reports."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from local_replay import Columns, Tables, chunks_of, named_in

from dispatch_audit.pipeline.contract.rules import FACTS_AT_THE_END
from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS
from dispatch_audit.pipeline.groups.replay_group import replay_group
from dispatch_audit.pipeline.groups.replay_rows import rows_in
from dispatch_audit.pipeline.replay.config import ReplayConfig

INTERVALS: Final = ("draining", "blocking", "assignments")
# What is counted, by what it is counted.
COUNTED: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "metrics": (("rule",), ("checked", *COUNT_COLUMNS)),
    "consumers": (("consumer", "consumer_name"), ("dispatched", "acked", "drainingHashesClearedTotal")),
    "hot_keys": (("sticky_hash", "key_id"), ("dispatched",)),
    "producers": (
        ("producer_name",),
        ("entries", "messages", "batches", "mixed_batches", "keyless_entries", "chunked_entries"),
    ),
    "coverage": (
        (),
        (
            "rows",
            "rows_refused",
            "rows_censored",
            "gaps",
            "rows_dropped",
            "rows_censored_by_gaps",
            "dispatches_undecided",
            "dispatches_without_key",
            "seq_missing",
        ),
    ),
}
# What stands as the last window has it.
LAST: Final[Mapping[str, tuple[str, ...]]] = {
    "consumers": ("joined_at_us", "left_at_us", "leave_reason", "drainingHashesCount", "readPositionWhenJoining"),
    "coverage": ("censored_never_dispatched", "censored_never_acknowledged", "consumers_by_snapshot_only"),
}
UNION: Final = ("violations", "capacity", "refused")


def tables_of_windows(logs: Sequence[Sequence[Columns]], rules: ReplayConfig, cuts: Sequence[int]) -> list[Tables]:
    """What each window reports; cut in front of the rows with these seqs, the last window is the end of the log."""
    windows: list[Tables] = []
    states: dict[Any, bytes] = {}
    groups = named_in(logs)
    bounds = [0, *sorted(cuts), 2**62]
    for number in range(len(bounds) - 1):
        first, end = bounds[number], bounds[number + 1]
        part = [[row for row in log if first <= row["seq"] < end] for log in logs]
        chunks = chunks_of(part, rules, groups=groups)
        reported: Tables = defaultdict(list)
        for group in groups:
            ordered = sorted(chunks[group], key=lambda chunk: chunk.first_seq)
            goes_on = number < len(bounds) - 2
            for table, columns in replay_group(group, ordered, rules, 0, before=states.get(group), keep_state=goes_on):
                if table == "state":
                    states[group] = columns["payload"][0]
                    continue
                reported[table] += rows_in(columns)
        windows.append(reported)
    return windows


def folded(windows: Sequence[Tables]) -> dict[str, Any]:
    """What the windows report together, in a form that is equal where they report the same."""
    together: dict[str, Any] = {}
    for table in UNION:
        together[table] = Counter(
            # Of batches with several keys each window shows the first, and facts at the end tell of its own end.
            _frozen(row)
            for window in windows
            for row in window[table]
            if row.get("rule") not in ("mixed_key_batch", *FACTS_AT_THE_END)
        )
    for table in INTERVALS:
        # What is open at the end of a window is reported again by the next one, as open or with its end.
        over = [row for window in windows[:-1] for row in window[table] if row["to_seq"] is not None]
        together[table] = Counter(_frozen(row) for row in [*over, *windows[-1][table]])
    for table, (key, counted) in COUNTED.items():
        sums: defaultdict[Any, Counter[str]] = defaultdict(Counter)
        for window in windows:
            for row in window[table]:
                if row.get("rule") in FACTS_AT_THE_END:
                    continue
                sums[_of(row, key)].update({name: row[name] for name in counted})
        together[table] = {key: +counts for key, counts in sums.items() if +counts}
    for table, names in LAST.items():
        key = COUNTED[table][0]
        together[f"last of {table}"] = {_of(row, key): _of(row, names) for window in windows for row in window[table]}
    return together


def _of(row: Columns, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("topic", "subscription", *names))


def _frozen(row: Columns) -> str:
    return repr(sorted((name, value) for name, value in row.items() if value is not None))
