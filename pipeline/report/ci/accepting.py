"""Warns of the stale lines of a baseline, and writes a baseline from the findings in the tables."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.contract.fail_on import FailOn
from dispatch_audit.pipeline.contract.rules import about
from dispatch_audit.pipeline.contract.severity import NEED_A_LOOK
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.summary import RunSummary, Summary
from dispatch_audit.pipeline.run.baseline import IDENTIFYING, AcceptedFinding, Baseline, read_baseline
from dispatch_audit.pipeline.tables.tables import Tables, of_run
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of

# Stale lines that a warning names.
_NAMED: Final = 5


def warning_of(path: Path, stale: tuple[AcceptedFinding, ...]) -> str:
    """Returns the sentence about stale lines, of which there is at least one."""
    more = len(stale) - _NAMED
    named = "; ".join([*map(str, stale[:_NAMED]), *([f"and {more:,} more"] if more > 0 else [])])
    lines = count(len(stale), "line that no longer has its finding", "lines that no longer have their findings")
    return f"the baseline {path} has {lines}: {named}; write it anew with --write-baseline {path}"


class Written(NamedTuple):
    """What was written.

    Attributes:
        note: the file, and how to use it.
        warnings: about findings that it does not have.
    """

    note: str
    warnings: tuple[str, ...]


def written_baseline(spark: SparkSession | None, summary: Summary, path: Path, fail_on: FailOn) -> Written:
    """Writes the findings that fail an audit to a baseline; of other traces it keeps what it accepts.

    Args:
        spark: the session; tables below a local path are read without one.
        summary: of whole traces.
        path: of the baseline, which need not exist.
        fail_on: which findings fail the audit.

    Raises:
        UsageError: the file exists and is no baseline, or cannot be written.
    """
    before = read_baseline(path) if path.exists() else Baseline(path)
    tables = tables_of(spark, parse_target(summary.target))
    rows = {_trace(run): [row for row in _rows(tables, run) if _fails(row, fail_on)] for run in summary.runs}
    before.rewritten(rows).write()
    accepted = count(sum(map(len, rows.values())), "finding")
    note = f"wrote {accepted} of {count(len(rows), 'trace')} to {path}; audit --baseline {path} accepts them"
    return Written(note, tuple(_not_kept(summary, rows, fail_on)))


def _not_kept(summary: Summary, rows: dict[str, list[dict[str, Any]]], fail_on: FailOn) -> Iterator[str]:
    for run in summary.runs:
        counted = sum(
            number
            for rule in run.rules
            for severity, number in rule.findings.items()
            if severity in NEED_A_LOOK and fail_on.by_findings([severity], about(rule.rule), rule.rule)
        )
        if lacking := counted - len(rows[_trace(run)]):
            yield (
                f"{_trace(run)}: {count(lacking, 'finding is', 'findings are')} counted only and cannot be accepted "
                "one by one; keep them with report.findings_per_rule_max (--config), and write the baseline again"
            )


def _fails(row: dict[str, Any], fail_on: FailOn) -> bool:
    return fail_on.by_findings([row["severity"]], about(row["rule"]), row["rule"])


def _rows(tables: Tables, run: RunSummary) -> list[dict[str, Any]]:
    """The findings of a run that need a look, with the columns that identify them."""
    severities = ", ".join(f"'{severity}'" for severity in sorted(NEED_A_LOOK))
    return tables.query(
        "violations", ", ".join(IDENTIFYING), f"WHERE {of_run(run.run_key)} AND severity IN ({severities})"
    )


def _trace(run: RunSummary) -> str:
    return ", ".join(run.inputs)
