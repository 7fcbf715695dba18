"""Marks the findings that the baseline of an audit accepts."""

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dispatch_audit.pipeline.run.baseline import IDENTIFYING, Baseline, Matched
from dispatch_audit.pipeline.tables.rows import TableRows


def matched_in(baseline: Baseline, inputs: Sequence[str], violations: TableRows | None) -> Matched:
    """Returns what a baseline says of the findings of a run.

    Args:
        baseline: the accepted findings.
        inputs: of the run, as in `runs`.
        violations: the rows of that table; None: there are none.
    """
    rows = [] if violations is None else violations.select(*IDENTIFYING).to_pylist()
    return baseline.matched(", ".join(inputs), rows)


def with_accepted(violations: TableRows, ids: Collection[str]) -> TableRows:
    """Returns rows of `violations` with their column `accepted` filled in."""
    accepted = pa.array(sorted(ids), pa.string())

    def values(batch: pa.RecordBatch) -> pa.Array:
        return pc.is_in(batch["finding_id"], accepted)

    return violations.with_column("accepted", values)
