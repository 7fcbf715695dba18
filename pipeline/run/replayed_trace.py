"""A replayed trace before its rows are written to the tables, and the rows of it that go to `quarantine`."""

from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.bad_rows import QuarantineCounts
from dispatch_audit.pipeline.packing.repeated_rows import REPEATED_ROW
from dispatch_audit.pipeline.plan.staged_texts import rows_in
from dispatch_audit.pipeline.run.audit_task import AuditTask
from dispatch_audit.pipeline.run.refused_by_replay import refused_by_replay
from dispatch_audit.pipeline.run.stages import Stages
from dispatch_audit.pipeline.run.too_much_refused import too_much_refused
from dispatch_audit.pipeline.tables.rows import TableRows
from dispatch_audit.pipeline.tables.schemas import QUARANTINE
from dispatch_audit.pipeline.tables.through_spark.spark_rows import frame_of
from dispatch_audit.pipeline.tables.write import RunTables
from dispatch_audit.pipeline.trace import Survey, Trace
from dispatch_audit.pipeline.trace.checks.asked import ASKED_BY, AskedRows
from dispatch_audit.pipeline.trace.quarantine.refused_row import RefusedRow
from dispatch_audit.pipeline.trace.reasons import STATEFUL
from dispatch_audit.pipeline.windows.resolve import ResolvedWindow
from dispatch_audit.pipeline.windows.rows_without_seq import RowsWithoutSeq


@dataclass(frozen=True)
class ReplayedTrace:
    """A replayed trace that can be audited.

    Attributes:
        task: the task of auditing it.
        window: the window that was replayed; None: the whole log.
        trace: the trace, or the rows of the window.
        staged: its packed rows and what else was staged, as `STAGED_SCHEMA`.
        survey: what the counts of its rows show.
        without_seq: the bad rows of the window that have no seq.
        tables: the tables that its rows go to.
        rows: the rows of each table, by its name.
        stages: the stages so far.
        started_at_us: when the audit of it began.
    """

    task: AuditTask
    window: ResolvedWindow | None
    trace: Trace
    staged: DataFrame
    survey: Survey
    without_seq: RowsWithoutSeq
    tables: RunTables
    rows: dict[str, TableRows]
    stages: Stages
    started_at_us: int

    @property
    def rows_in(self) -> int:
        """Number of rows read."""
        return self.survey.rows_in + self.without_seq.number

    def bounds_us(self) -> tuple[int | None, int | None]:
        """Returns the first and the last time in the trace."""
        first = [g.first_ts_us for g in self.survey.groups if g.first_ts_us is not None]
        last = [g.last_ts_us for g in self.survey.groups if g.last_ts_us is not None]
        return min(first, default=None), max(last, default=None)

    def quarantine(self, spark: SparkSession, ratio_max: float) -> int:
        """Adds the rows of `quarantine` and returns their number.

        Raises:
            TraceError: more of the rows are bad than the share `ratio_max`.
        """
        refused, without_seq = self.rows.pop("refused", None), self.without_seq
        if not self.survey.refused and refused is None and without_seq.rows is None:
            return 0
        columns = QUARANTINE.arrow_schema.names
        with self.stages.stage("quarantine") as stage:
            rows = rows_in(self.staged).select(*columns)
            if refused is not None:
                asked, keep = AskedRows.of(refused.select(*ASKED_BY)), partial(self.tables.keep, name="asked")
                late = refused_by_replay(spark, self.trace, frame_of(spark, refused), asked, keep)
                rows = rows.union(late.select(*columns))
            if without_seq.rows is not None:
                rows = rows.union(without_seq.rows.select(*columns))
            quarantine = self.rows["quarantine"] = self.tables.rows_of("quarantine", rows)
            counts = self._counted(quarantine)
            stage["rows"] = counts.rows + without_seq.number
        # The replay may refuse rows of the window before only now.
        before = 0 if self.window is None else self.window.rows_before
        if counts.bad_share(self.survey.rows_in + before) > ratio_max:
            first = _first_of_replay(quarantine)
            raise too_much_refused(self.trace.path, self.survey.rows_in, counts, first, ratio_max)
        return counts.rows + without_seq.number

    def _counted(self, quarantine: TableRows) -> QuarantineCounts:
        """Returns the numbers of rows of `quarantine` that have a seq."""
        counts = quarantine.counts("reason")
        repeated, early = counts.pop(REPEATED_ROW, 0), self.survey.refused
        return QuarantineCounts(early, sum(counts.values()) - early - self.without_seq.number, repeated)


def _first_of_replay(quarantine: TableRows) -> RefusedRow:
    """Returns the first row, by file and line, that the replay refused; at least one is there."""
    rows = quarantine.select("reason", "detail", "file", "line")
    of_replay = rows.filter(pc.is_in(rows["reason"], pa.array(STATEFUL.keys() - {REPEATED_ROW})))
    ordered = of_replay.sort_by([("file", "ascending"), ("line", "ascending")])
    return RefusedRow.of(ordered.slice(0, 1).to_pylist()[0])
