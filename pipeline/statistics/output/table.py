"""Writes diagnoses into the Delta table `diagnoses`, so that polls of a cluster have a history.

The run key is made of the answers: to diagnose the same dumps again replaces their rows.
"""

import time
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.contract.known_bugs import labels
from dispatch_audit.pipeline.errors import GaveWayError
from dispatch_audit.pipeline.statistics.diagnose import Result
from dispatch_audit.pipeline.statistics.diagnosis import Diagnosis
from dispatch_audit.pipeline.statistics.output.words import leading, rest_of
from dispatch_audit.pipeline.tables.create import made_ready
from dispatch_audit.pipeline.tables.rows import held_rows
from dispatch_audit.pipeline.tables.schemas import DIAGNOSES
from dispatch_audit.pipeline.tables.tables import ConflictError, is_held
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.tables.way import tables_of


def write_diagnoses(result: Result, target: Target, spark: SparkSession | None) -> None:
    """Adds the diagnoses to the table, which is created if it is not there.

    Args:
        result: of all inputs.
        target: where the table is.
        spark: the session; a local path needs none.

    Raises:
        UsageError: the target cannot be written, or holds something else under the name of the table.
        GaveWayError: another diagnosis of the same dumps wrote at the same time.
    """
    now_us = time.time_ns() // 1000
    batch = rows_of(result.diagnoses, now_us)
    run_key = _run_key(batch)
    tables = tables_of(spark, target)
    tables.create_schema()
    made_ready(tables, DIAGNOSES)
    write = tables.overwrite if is_held(tables, DIAGNOSES.name, run_key) else tables.append
    try:
        write(DIAGNOSES, held_rows(DIAGNOSES, [batch]), run_key, now_us)
    except ConflictError as error:
        message = f"another diagnosis of the same dumps wrote to {target} at the same time"
        raise GaveWayError(message, "use its rows") from error


def rows_of(diagnoses: Sequence[Diagnosis], now_us: int) -> pa.RecordBatch:
    """Returns the rows, without the run key and timestamps."""
    rows = [_row(diagnosis, now_us) for diagnosis in diagnoses]
    return pa.RecordBatch.from_pylist(rows, DIAGNOSES.arrow_schema)


def _run_key(batch: pa.RecordBatch) -> str:
    columns = [name for name in batch.schema.names if name != "diagnosed_ts_us"]
    return sha256(repr(batch.select(columns).to_pydict()).encode()).hexdigest()[:16]


def _row(diagnosis: Diagnosis, now_us: int) -> dict[str, Any]:
    clock, facts = diagnosis.history.moments[-1].clock, diagnosis.facts
    first = leading(diagnosis.reasons)
    row = {
        "topic": diagnosis.history.topic,
        "subscription": diagnosis.history.subscription,
        "taken_ts_us": None if clock.at_ms is None else clock.at_ms * 1000,
        "taken_by": clock.source,
        "last_ts_us": facts.last_ms * 1000 if facts is not None and facts.last_ms else None,
        "diagnosed_ts_us": now_us,
        "dumps": len(diagnosis.history.moments),
        "pulsar_version": diagnosis.release,
        "answer": diagnosis.answer,
        "headline": diagnosis.headline,
        "alarm": diagnosis.is_alarm,
        "consumers": [] if first is None else list(first.consumers),
        "other_signs": [f"{one.name}: {one.certainty}" for one in rest_of(diagnosis.reasons)],
        "files": diagnosis.history.files,
    }
    if first is not None:
        row |= {
            "sign": first.name,
            "certainty": first.certainty,
            "known_bugs": labels(first.bugs),
            "shown": first.shown,
            "since": first.since or None,
            "remedy": first.remedy or None,
        }
    if facts is not None:
        row |= {
            "consumers_connected": facts.number,
            "msg_backlog": facts.subscription.backlog,
            "msg_in_replay": facts.subscription.replay,
            "unacked_messages": facts.subscription.unacked,
            "sent": None if facts.movement is None else facts.movement.sent,
        }
    return row
