"""The measures of simulated partitions as rows, and those of a whole topic."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeAlias

from dispatch_audit.pipeline.groups.columns import Columns
from dispatch_audit.pipeline.simulate.lower_bound import makespan_bound_us
from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.policies.hot_key_overflow import HotKeyOverflowPolicy

MeasuresRow: TypeAlias = dict[str, Any]

# What is the largest of any partition, or the earliest; all else is a sum over partitions.
_LARGEST: Final = ("replay_peak", "ack_holes_peak", "makespan_s", "makespan_bound_s", "no_progress_s")
_EARLIEST: Final = ("stalled_at_s",)


def measures_row(simulation: PartitionSimulation) -> MeasuresRow:
    """The measures of a simulated partition, in seconds and counts.

    `makespan_s` is the time from the first publish to the last acknowledgement, and `makespan_bound_s` its least value
    (`lower_bound`); `waited_message_s` the time from publishing to the first sending, summed over all messages, up to
    the end for those that were never sent. Of `connected_s`, clients processed something for `busy_s`.
    """
    found = asdict(simulation.progress.measures)
    counters = found["counters"]
    publish_us = simulation.workload.publish_us
    first_us = publish_us[0] if len(publish_us) else 0
    policy = simulation.policy
    return {
        "entries": found["entries"],
        "sent": counters["sent"],
        "never_sent": found["never_sent"],
        "duplicates": found["duplicates"],
        "reads": counters["reads"],
        "entries_read": counters["entries_read"],
        "entries_read_in_vain": counters["entries_wasted"],
        "replay_peak": found["replay_peak"],
        "ack_holes_peak": found["ranges_peak"],
        "no_progress_s": found["no_progress_us"] / 1e6,
        "stalled_at_s": None if found["stalled_at_us"] < 0 else found["stalled_at_us"] / 1e6,
        "waited_message_s": round(found["waited_us"] / 1e6, 3),
        "makespan_s": max(found["ended_us"] - first_us, 0) / 1e6,
        "makespan_bound_s": makespan_bound_us(simulation.workload) / 1e6,
        "connected_s": found["connected_us"] / 1e6,
        "busy_s": found["busy_us"] / 1e6,
        "overflowed": counters["overflowed_messages"],
        "overflowed_bytes": counters["overflowed_bytes"],
        "hot_keys_detected": policy.detected if isinstance(policy, HotKeyOverflowPolicy) else 0,
    }


def judged_row(tables: Iterable[tuple[str, Columns]]) -> MeasuresRow:
    """What the audit found in a partition, simulated or recorded; each table may come in several parts.

    `judged` counts dispatches. In `held_up_s` seconds nothing was sent to anybody although entries waited.
    """
    severities: Counter[str] = Counter()
    blocked_s, held_up_s, dispatches = 0.0, 0.0, 0
    for table, columns in tables:
        if table == "violations":
            severities.update(columns["severity"])
        elif table == "blocking":
            waited = zip(columns["scope"], columns["message_seconds"], strict=True)
            blocked_s += sum(seconds or 0 for scope, seconds in waited if scope == "hash")
        elif table == "coverage":
            held_up_s += sum(columns["held_up_seconds"])
            dispatches += sum(columns["dispatches"])
    return {
        "violations": severities["violation"],
        "known_bugs": severities["known_bug"],
        "blocked_message_s": round(blocked_s, 3),
        "held_up_s": round(held_up_s, 3),
        "judged": dispatches,
    }


def of_topic(rows: Sequence[Mapping[str, Any]]) -> MeasuresRow:
    """The measures of all partitions together: sums, but the largest peak and the earliest stall."""
    together: MeasuresRow = {}
    for name in rows[0]:
        values = [row[name] for row in rows if row[name] is not None]
        if name in _LARGEST:
            together[name] = max(values, default=0)
        elif name in _EARLIEST:
            together[name] = min(values, default=None)
        else:
            together[name] = sum(values)
    return together


def idle_share(row: Mapping[str, Any]) -> float:
    """The share of connected time in which clients processed nothing."""
    return 1 - min(row["busy_s"] / row["connected_s"], 1) if row["connected_s"] else 0.0
