"""Finds the rows of a trace that an audit would refuse, by the checks of rows and by a replay; writes no tables."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.bad_rows import QuarantineCounts
from dispatch_audit.pipeline.contract.profile import Profile, judged_as
from dispatch_audit.pipeline.engine.releases.arrow_frames import frame_of_table
from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.packing.repeated_rows import REPEATED_ROW
from dispatch_audit.pipeline.plan.pack_on_spark import checked_rows, packed_rows
from dispatch_audit.pipeline.plan.packed_source import Reading, configure, counts_in, packing_of
from dispatch_audit.pipeline.plan.replay_on_spark import replayed
from dispatch_audit.pipeline.plan.staged_batches import STAGED_SCHEMA
from dispatch_audit.pipeline.plan.staged_texts import rows_in
from dispatch_audit.pipeline.run.audit_task import profile_of
from dispatch_audit.pipeline.run.outside_limits import refuse_several_recorders
from dispatch_audit.pipeline.run.refused_by_replay import refused_by_replay
from dispatch_audit.pipeline.run.replay_config import replay_config
from dispatch_audit.pipeline.run.request import AuditRequest, ValidationResult
from dispatch_audit.pipeline.run.stages import Progress, of_several
from dispatch_audit.pipeline.run.too_much_refused import too_much_refused
from dispatch_audit.pipeline.settings import Settings
from dispatch_audit.pipeline.tables.payload import batches_in
from dispatch_audit.pipeline.tables.schemas import REFUSED
from dispatch_audit.pipeline.trace import Trace, open_traces, trace_errors
from dispatch_audit.pipeline.trace.checks.asked import ASKED_BY, AskedRows
from dispatch_audit.pipeline.trace.quarantine.refused_row import RefusedRow
from dispatch_audit.pipeline.trace.quarantine.row_counts import Count
from dispatch_audit.pipeline.trace.quarantine.survey import Refused, Survey, counted_up, fault_of
from dispatch_audit.pipeline.trace.side_by_side import put_together
from dispatch_audit.pipeline.trace.workers.tasks import evaluated

_BY_PLACE: Final = ("file", "line", "reason", "detail", "raw")


@dataclass(frozen=True)
class _RefusedRows:
    """Refused rows.

    Attributes:
        numbers: of each reason.
        first: the first row of each reason, by file and line.
        rows: the first rows of all reasons.
    """

    numbers: Mapping[str, int]
    first: Mapping[str, RefusedRow]
    rows: Sequence[RefusedRow]


_NONE: Final = _RefusedRows({}, {}, ())


def validate(
    spark: SparkSession, request: AuditRequest, progress: Progress, *, replay: bool = True, rows_max: int = 0
) -> list[ValidationResult]:
    """Returns for every trace the rows that an audit would read and refuse; the target is not used.

    Args:
        spark: the session.
        request: the traces and the settings.
        progress: called with the name of each stage as it begins.
        replay: whether to look for rows that contradict others, too.
        rows_max: how many refused rows of each trace to return.

    Raises:
        UsageError: a path or the profile does not exist.
        TraceError: a trace is empty, cannot be read, or is of a kind that is not audited. A trace that the settings
            refuse is no error: its result has the fault.
    """
    configure(spark, request.settings)
    traces = put_together(open_traces(request.paths, request.profile))
    return [
        _validated(spark, trace, request, of_several(progress, number, len(traces)), replay, rows_max)
        for number, trace in enumerate(traces, 1)
    ]


def _validated(
    spark: SparkSession, trace: Trace, request: AuditRequest, progress: Progress, replay: bool, rows_max: int
) -> ValidationResult:
    profile, settings = profile_of(trace, request), request.settings
    progress("survey")
    counts, refused = counts_of(spark, trace, settings.spark.chunk_rows, max(rows_max, 1))
    found = counted_up(counts, refused, trace)
    refuse_several_recorders(trace, counts)
    fault = fault_of(found, refused, trace, settings.trace)
    early, late = _NONE, _NONE
    if found.refused:
        with trace_errors():
            early = _refused_rows(refused(), found.refused_by_reason, rows_max)
    if replay and fault is None:
        progress("replay")
        late = _late(spark, trace, profile, settings, counts, rows_max)
        fault = _too_much(trace, found, late, settings)
    reasons = Counter(early.numbers) + Counter(late.numbers)
    return ValidationResult(
        path=trace.path,
        profile=profile.name,
        judged_as=judged_as(trace.manifest.pulsar_version, profile),
        events_in=found.rows_in,
        events_quarantined=reasons.total(),
        reasons=dict(reasons),
        fault="" if fault is None else str(fault),
        gaps=found.gaps,
        rows_dropped=found.dropped,
        first={**early.first, **late.first},
        rows=_in_order([*early.rows, *late.rows])[:rows_max],
    )


def counts_of(spark: SparkSession, trace: Trace, chunk_rows: int, texts_max: int = 1) -> tuple[list[Count], Refused]:
    """Returns the counts of the rows of a trace, and what returns its refused rows.

    Args:
        spark: the session.
        trace: the trace.
        chunk_rows: most rows that are checked at a time.
        texts_max: how many refused rows of each reason are returned of a batch.
    """

    def collected(frame: DataFrame) -> DataFrame:
        # They are few: of the refused rows only those that a message may name.
        return spark.createDataFrame(frame.collect(), STAGED_SCHEMA)

    staged = evaluated(spark, trace, checked_rows(chunk_rows, texts_max), STAGED_SCHEMA, collected)
    return counts_in(staged), lambda: rows_in(staged)


def _late(
    spark: SparkSession, trace: Trace, profile: Profile, settings: Settings, counts: Sequence[Count], rows_max: int
) -> _RefusedRows:
    """Returns the rows that the replay refuses; nothing is staged, so the trace is read again for each step."""
    config = replay_config(trace.manifest, profile, settings, trace.manifest.complete_from_start)
    reading = Reading(spark, trace, profile, settings)

    def refused_of(staged: DataFrame) -> pa.Table:
        results = replayed(reading.placed(staged, counts), config, settings.report.findings_per_rule_max)
        payloads = results.where(sf.col("table") == REFUSED.name).select("payload").collect()
        batches = [batch for row in payloads for batch in batches_in(bytes(row["payload"]))]
        return pa.Table.from_batches(batches, REFUSED.arrow_schema)

    work = packed_rows(packing_of(trace.manifest, profile, settings))
    refused = evaluated(spark, trace, work, STAGED_SCHEMA, refused_of)
    if not refused.num_rows:
        return _NONE
    asked = AskedRows.of(refused.select(ASKED_BY))
    refused_rows = frame_of_table(spark, refused, REFUSED.written_spark_schema)
    with trace_errors():
        rows = refused_by_replay(spark, trace, refused_rows, asked, lambda frame: frame)
        numbers = {row["reason"]: row["count"] for row in rows.groupBy("reason").count().collect()}
        return _refused_rows(rows, numbers, rows_max)


def _refused_rows(rows: DataFrame, numbers: Mapping[str, int], rows_max: int) -> _RefusedRows:
    by_place = rows.groupBy("reason").agg(sf.min(sf.struct(*_BY_PLACE)).alias("first"))
    first = {row["reason"]: RefusedRow.of(row["first"].asDict()) for row in by_place.collect()}
    shown = rows.orderBy("file", "line").limit(rows_max).collect() if rows_max else ()
    return _RefusedRows(numbers, first, [RefusedRow.of(row.asDict()) for row in shown])


def _too_much(trace: Trace, found: Survey, late: _RefusedRows, settings: Settings) -> TraceError | None:
    """Returns why an audit would refuse the trace because of its replay; None: it would not."""
    numbers = Counter(late.numbers)
    repeated = numbers.pop(REPEATED_ROW, 0)
    refused, ratio_max = QuarantineCounts(found.refused, numbers.total(), repeated), settings.trace.quarantine_ratio_max
    if refused.bad_share(found.rows_in) <= ratio_max:
        return None
    first = _in_order([row for reason, row in late.first.items() if reason != REPEATED_ROW])[0]
    return too_much_refused(trace.path, found.rows_in, refused, first, ratio_max)


def _in_order(rows: Sequence[RefusedRow]) -> list[RefusedRow]:
    return sorted(rows, key=lambda row: (row.file, row.line or 0))
