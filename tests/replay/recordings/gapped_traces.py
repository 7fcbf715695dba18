"""Recordings with gaps: a recorder dropped rows and said so.

    .venv/bin/python tests/replay/recordings/gapped_traces.py [NAME...]

prints for recordings how many findings stay when a tenth of the trace is missing in the middle.
"""

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from local_replay import Columns, Replay, recorded_logs, replayed_logs, replayed_recording
from recorded import RECORDINGS

from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.replay.verdicts.dispatch_findings import dispatch_findings
from dispatch_audit.pipeline.replay.verdicts.reported_findings import counter_findings, mismatch_findings
from dispatch_audit.pipeline.replay.verdicts.stalls.stall_findings import stuck_findings

Logs = Sequence[Sequence[Columns]]
Key = tuple[Any, ...]

OF_ENTRIES: Final = ("publish", "dispatch", "ack", "redeliver", "flow")
"""What a recorder drops first."""


class Interval(NamedTuple):
    """Rows from one seq to another, both of them in it."""

    first: int
    last: int


def with_gaps(
    logs: Logs,
    intervals: Sequence[Interval],
    share: float,
    rng: random.Random,
    *,
    events: Sequence[str] | None = OF_ENTRIES,
    of_topics: bool = False,
) -> list[list[Columns]]:
    """The rows without a random share of those in some intervals, and with the gap rows of a recorder.

    Args:
        logs: the rows.
        intervals: where rows may be lost.
        share: how many of them are lost.
        rng: chooses them.
        events: which events may be lost, and are named in the gap rows; None: all, and none is named.
        of_topics: whether one gap row names only the topic.
    """
    kept: list[list[Columns]] = []
    lost: dict[tuple[int, Key], list[Columns]] = defaultdict(list)
    for log in logs:
        kept.append([])
        for row in log:
            at = next((n for n, part in enumerate(intervals) if part.first <= row["seq"] <= part.last), None)
            if at is None or (events is not None and row["event"] not in events) or rng.random() >= share:
                kept[-1].append(row)
            else:
                named = None if of_topics or row["event"] == "publish" else row["subscription"]
                lost[at, (row.get("broker"), row["topic"], named)].append(row)
    kept.append([])
    for (_, (broker, topic, subscription)), rows in lost.items():
        first = min(rows, key=lambda row: row["seq"])
        gap = {
            "event": "gap",
            "seq": first["seq"],
            "ts_us": first["ts_us"],
            "seq_end": max(row["seq"] for row in rows),
            "dropped": len(rows),
            "topic": topic,
            "subscription": subscription,
            "broker": broker,
        }
        kept[-1].append(gap if events is None else {**gap, "dropped_events": sorted({r["event"] for r in rows})})
    return kept


def bounds(logs: Logs) -> Interval:
    """The first and the last seq."""
    seqs = [row["seq"] for log in logs for row in log]
    return Interval(min(seqs), max(seqs))


def violations(replays: Mapping[Group, Replay]) -> Counter[Key]:
    """The violations: by rule, the row of a dispatch or snapshot and its consumer; of what was stuck, the hash."""
    found: Counter[Key] = Counter()
    for group, replay in replays.items():
        for source in (dispatch_findings, stuck_findings, mismatch_findings, counter_findings):
            for of_rule in source(replay.context):
                for finding in of_rule.worst:
                    if finding.severity == "violation":
                        stuck = source is stuck_findings
                        what = finding.sticky_hash if stuck else (finding.seq, finding.consumer)
                        found[group, of_rule.rule, what] += 1
    return found


def _share_that_stays(name: str, width: float) -> None:
    logs = recorded_logs(name)
    whole = findings(replayed_recording(name))
    first, last = bounds(logs)
    middle = Interval(first + int((last - first) * (0.5 - width / 2)), first + int((last - first) * (0.5 + width / 2)))
    cut = with_gaps(logs, [middle], 1.0, random.Random(0))
    replays = replayed_logs(name, cut)
    left = findings(replays)
    outside = sum(n for key, n in whole.items() if not middle.first <= key[-1] <= middle.last)
    rows = sum(len(log) for log in logs)
    censored = sum(replay.replayed.unseen.rows_censored for replay in replays.values())
    total = sum(whole.values())
    print(
        f"{name}: {total} findings, {outside} outside of the gap, {sum((left & whole).values())} stay, "
        f"{sum((left - whole).values())} others; {censored} of {rows} rows not judged",
        flush=True,
    )


def findings(replays: Mapping[Group, Replay]) -> Counter[Key]:
    """What breaks the contract, whether or not a known flaw explains it, by rule and seq."""
    found: Counter[Key] = Counter()
    for group, replay in replays.items():
        for of_rule in dispatch_findings(replay.context):
            for finding in of_rule.worst:
                if finding.severity in ("violation", "known_bug"):
                    found[group, of_rule.rule, finding.seq] += 1
    return found


def main(names: Sequence[str]) -> None:
    """Prints the measures of recordings."""
    for name in names or sorted(path.name for path in RECORDINGS.iterdir() if path.is_dir()):
        _share_that_stays(name, 0.1)


if __name__ == "__main__":
    main(sys.argv[1:])
