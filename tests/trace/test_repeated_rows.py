"""Rows that are delivered twice count once, and each repetition is accounted for."""

import pytest
from arrow_rows import batch_of, encoded
from test_plain import PLAIN
from trace_rows import ACK, TOPIC, Row

from pipeline.profile import profile_for
from pipeline.replay.chunk import Chunk, merged
from pipeline.replay.pack import pack

_GROUPS = {TOPIC: {"ks": 0}}
_PROFILE = profile_for("4.0.8", {})
# An acknowledgement of several entries, which is several events of one row.
# Snapshots come to be packed as JSON, which these are not.
_ROWS = [
    *(row for row in PLAIN if row["event"] != "stats"),
    {**ACK, "seq": 30, "positions": [{"ledger_id": 31, "entry_id": entry} for entry in range(3)]},
]
_SEQS = sorted(int(row["seq"]) for row in _ROWS)


def _chunks(*batches: list[Row]) -> list[Chunk]:
    rows = [batch_of(batch) for batch in batches]
    found = [chunk for batch in rows for chunk in pack(encoded(batch), _GROUPS, _PROFILE)]
    return sorted(found, key=lambda chunk: chunk.first_seq)


@pytest.mark.parametrize(
    "batches",
    [
        [[*_ROWS, *_ROWS]],
        [_ROWS, _ROWS],
        [_ROWS[:4], _ROWS, _ROWS[4:]],
        [[row] for row in (*_ROWS, *_ROWS)],
    ],
    ids=["in one chunk", "in two chunks", "a whole log and its halves", "each row a chunk"],
)
@pytest.mark.parametrize("rows_min", [1, 1 << 16])
def test_a_row_that_is_delivered_twice_counts_once(batches: list[list[Row]], rows_min: int) -> None:
    (once,) = merged(_chunks(list(_ROWS)))
    parts = list(merged(_chunks(*batches), rows_min))
    assert sorted(row.seq for part in parts for row in part.repeated) == _SEQS
    for name, column in once.events._asdict().items():
        assert [value for part in parts for value in part.events._asdict()[name].tolist()] == column.tolist(), name
    assert [row for part in parts for row in part.membership] == once.membership
