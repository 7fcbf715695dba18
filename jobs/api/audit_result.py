"""The result of an audit, with its reports and tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pyspark.sql import SparkSession

from dispatch_audit.jobs.one_error import one_error
from dispatch_audit.jobs.reports import rendered_report
from dispatch_audit.pipeline.contract.answers import Order, Progress
from dispatch_audit.pipeline.contract.fail_on import FailOn
from dispatch_audit.pipeline.contract.severity import RunVerdict
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.report.ci.failing import failed
from dispatch_audit.pipeline.report.ci.github import markdown
from dispatch_audit.pipeline.report.summary import Finding, Summary
from dispatch_audit.pipeline.report.text.report import ReportOptions
from dispatch_audit.pipeline.storage.options import options_given
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.trace import Trace, UnusableTrace

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ReportForm = Literal["text", "json", "junit", "sarif", "markdown", "html", "perfetto"]


@dataclass(frozen=True)
class Audit:
    """The runs of an audit, one for each trace or window.

    Attributes:
        summary: the runs with their counts and worst findings, as all reports show them.
        conditions: what fails the audit.
        traces: the trace of each run; none for a run that was read back.
        baseline_note: the baseline that was written, in a sentence; None: none was.
        took: how long the parts of the call took, in words.
        spark: the session; None: the tables were read without one.
        storage_options: of the call, for the tables that are read later.
    """

    summary: Summary
    conditions: FailOn
    traces: tuple[Trace, ...] = ()
    baseline_note: str | None = None
    took: str = ""
    spark: SparkSession | None = field(default=None, repr=False, compare=False)
    storage_options: Mapping[str, str] | None = field(default=None, repr=False, compare=False)

    @property
    def order(self) -> Order | None:
        """Whether order was kept, the worst of the runs; None: an older version of the audit did not say."""
        return self.summary.order

    @property
    def progress(self) -> Progress | None:
        """Whether messages made progress, the worst of the runs; None: an older version did not say."""
        return self.summary.progress

    @property
    def held_up_seconds(self) -> float:
        """The longest time in which nothing was sent to any consumer although entries waited."""
        return self.summary.held_up_seconds

    @property
    def verdict(self) -> RunVerdict:
        """The worst severity of all findings."""
        return self.summary.verdict

    @property
    def completeness(self) -> float:
        """The share of the rows that could carry a verdict, 0 to 1."""
        return self.summary.completeness

    @property
    def run_keys(self) -> tuple[str, ...]:
        """The keys of the runs, in the order of the traces."""
        return tuple(run.run_key for run in self.summary.runs)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The worst findings of each rule and run, at most 300 of each; the table `violations` has all."""
        return tuple(finding for run in self.summary.runs for finding in run.findings)

    @property
    def unusable(self) -> tuple[UnusableTrace, ...]:
        """Other traces, which could not be audited, with the error of each."""
        return self.summary.unusable

    @property
    def failed(self) -> bool:
        """Whether a condition of `fail_on` holds; not if a baseline was written, which accepts what fails."""
        return self.baseline_note is None and failed(self.summary, self.conditions)

    @property
    def exit_code(self) -> int:
        """The exit code of the command for this result."""
        return self.unusable[-1].error.exit_code if self.unusable else int(self.failed)

    def table(self, name: str) -> "pa.Table":
        """Returns the rows of these runs in a table, as Arrow.

        Args:
            name: of the table, such as `violations` (docs/TABLES.md).

        Raises:
            UsageError: there is no such table, or it cannot be read.
        """
        with one_error(), options_given(self.storage_options):
            # Imported here, because reports of an audit do not need them.
            from dispatch_audit.pipeline.tables.schemas import TABLES  # noqa: PLC0415
            from dispatch_audit.pipeline.tables.way import tables_of  # noqa: PLC0415

            if name not in TABLES:
                raise UsageError(f"an audit has no table {name}", f"the tables are {', '.join(TABLES)}")
            return tables_of(self.spark, parse_target(self.summary.target)).arrow(TABLES[name], self.run_keys)

    def pandas(self, name: str) -> "pd.DataFrame":
        """Returns the rows of these runs in a table, as a frame of pandas; raises as `table` does."""
        frame: pd.DataFrame = self.table(name).to_pandas()
        return frame

    def report(
        self, form: ReportForm = "text", *, findings: int | None = None, verbose: bool = False, width: int | None = None
    ) -> str:
        """Returns a report.

        Args:
            form: of the report; `html` is the page of one run, `perfetto` a time line for the viewers of Perfetto
                and Chrome.
            findings: incidents that a text shows; None: 3 that need a look.
            verbose: whether a text names the rules that found nothing, and the tables.
            width: columns to wrap a text at; None: whole lines.

        Raises:
            UsageError: `sarif` of a run that was read back, or `html` of several runs.
        """
        with one_error(), options_given(self.storage_options):
            if form == "html":
                return self._page()
            if form == "perfetto":
                from dispatch_audit.pipeline.report.perfetto.build import perfetto_trace  # noqa: PLC0415 - as `table`

                return perfetto_trace(self.spark, self.summary)
            if form == "markdown":
                return markdown(self.summary)
            if form == "sarif" and len(self.traces) != len(self.summary.runs):
                raise UsageError("SARIF names the lines of traces, which a run that was read back lacks", "audit again")
            shown = ReportOptions(findings, verbose)
            return rendered_report(form, self.summary, self.traces, self.conditions, shown, width).decode()

    def _page(self) -> str:
        if len(self.summary.runs) != 1:
            way_out = f"read_audit(target, run=KEY).report('html') for each of {', '.join(self.run_keys)}"
            raise UsageError("a page is that of one run", way_out)
        # Imported here: few audits want a page, and the library of the charts takes 0.4 s.
        from dispatch_audit.pipeline.report.page.build import built_page  # noqa: PLC0415
        from dispatch_audit.pipeline.report.page.render import rendered  # noqa: PLC0415

        return rendered(built_page(self.spark, self.summary.target, self.summary.runs[0]))
