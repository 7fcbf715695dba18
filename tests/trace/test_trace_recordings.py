"""The recordings of real brokers: nothing is refused, and nothing is lost."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.trace import Trace, open_traces, read_events
from dispatch_audit.pipeline.trace.sources import LOG_NAMES


@pytest.mark.spark
def test_every_row_of_every_recording_is_read_and_good(spark: SparkSession, recordings: Path) -> None:
    traces = open_traces([recordings])
    assert len(traces) == sum((folder / "trace.json").exists() for folder in recordings.iterdir())
    # As one trace, because a job for each would take minutes.
    logs = tuple(log for trace in traces for log in trace.logs)
    events = read_events(spark, Trace(traces[0].manifest, str(recordings), logs))
    found = Counter[tuple[str | None, ...]]()
    for row in events.groupBy("topic", "event", "phase", "refused").count().collect():
        found[row["topic"], row["event"], row["phase"], row["refused"]] += row["count"]
    assert found == Counter(_counted_by_hand(recordings))


def _counted_by_hand(recordings: Path) -> Counter[tuple[str | None, ...]]:
    counts = Counter[tuple[str | None, ...]]()
    for log in recordings.glob("*/*.jsonl.gz"):
        if log.name.startswith(LOG_NAMES):
            with gzip.open(log, "rt") as lines:
                for line in lines:
                    row = json.loads(line)
                    counts[row["topic"], row["event"], row.get("phase"), None] += 1
    return counts
