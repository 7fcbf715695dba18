"""The recordings of real brokers: nothing is refused, and nothing is lost."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from reading import parts_in
from recorded import rows_in

from dispatch_audit.pipeline.trace import open_traces
from dispatch_audit.pipeline.trace.sources import LOG_NAMES


@pytest.mark.recordings
def test_every_row_of_every_recording_is_read_and_good(recordings: Path) -> None:
    traces = open_traces([recordings])
    assert len(traces) == sum((folder / "trace.json").exists() for folder in recordings.iterdir())
    found = Counter[tuple[str | None, ...]]()
    for part in (part for trace in traces for part in parts_in(trace)):
        for rows in part.read(("topic", "event", "phase"), 1 << 16):
            assert rows.refused.num_rows == 0
            kinds = pa.Table.from_batches([rows.good]).group_by(rows.good.schema.names).aggregate([([], "count_all")])
            found.update({(row["topic"], row["event"], row["phase"]): row["count_all"] for row in kinds.to_pylist()})
    assert found == _counted_by_hand(recordings)


def _counted_by_hand(recordings: Path) -> Counter[tuple[str | None, ...]]:
    counts = Counter[tuple[str | None, ...]]()
    for log in recordings.glob("*/*.jsonl.gz"):
        if log.name.startswith(LOG_NAMES):
            counts.update((row["topic"], row["event"], row.get("phase")) for row in rows_in(log))
    return counts
