"""Builds the file for the viewers of Perfetto and Chrome from the tables of a target."""

import json
from typing import Any

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.report.perfetto.instants import findings, joins_and_leaves
from dispatch_audit.pipeline.report.perfetto.rows import TimelineRows, read_rows
from dispatch_audit.pipeline.report.perfetto.slices import draining, of_costliest_hashes, owners, waits
from dispatch_audit.pipeline.report.perfetto.trace_events import trace_events
from dispatch_audit.pipeline.report.perfetto.tracks import Event, Timeline
from dispatch_audit.pipeline.report.summary import RunSummary, Summary
from dispatch_audit.pipeline.report.wording import moment, together
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of


def perfetto_trace(spark: SparkSession | None, summary: Summary) -> str:
    """Returns the runs of a summary as JSON, the times of each in microseconds since its first row.

    Args:
        spark: the session; None is enough for tables below a local path.
        summary: of the runs. Several share the limits of a file.
    """
    tables = tables_of(spark, parse_target(summary.target))
    several = len(summary.runs) > 1
    events: list[Event] = []
    about: list[dict[str, Any]] = []
    left_out: list[str] = []
    for number, run in enumerate(summary.runs):
        rows = read_rows(tables, run, len(summary.runs))
        timeline = _timeline(number, together(run.inputs) if several else "", run, rows)
        of_run, shown = _events(run, rows, timeline, summary.target)
        events += of_run
        about.append({**_about(run), "shown": {name: {"shown": n, "of": of} for name, (n, of) in shown.items()}})
        left_out.append(", ".join(f"{n:,} of {of:,} {name} shown" for name, (n, of) in shown.items() if n < of))
    document = {
        "traceEvents": list(trace_events(events, left_out)),
        "displayTimeUnit": "ms",
        "otherData": {"runs": about},
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


def _timeline(number: int, trace: str, run: RunSummary, rows: TimelineRows) -> Timeline:
    keys: dict[tuple[str, str, int], tuple[str, int]] = {}
    for row in rows.keys:
        keys.setdefault((row["topic"], row["subscription"], row["sticky_hash"]), (row["key"], row["keys_on_hash"]))
    # A run without the one has no rows, and so no events.
    return Timeline(number, trace, run.from_ts_us or 0, run.to_ts_us or 0, keys)


def _events(
    run: RunSummary, rows: TimelineRows, timeline: Timeline, target: str
) -> tuple[list[Event], dict[str, tuple[int, int]]]:
    """Returns the events of a run, and of each kind of row how many are shown, and how many there are."""
    totals, ranges = rows.totals, sum(row["ranges"] for row in rows.owned)
    blocking = [*waits(rows.waits, timeline, target), *draining(rows.draining, timeline)]
    costliest = of_costliest_hashes(blocking)
    kept = {kind: sum(event.category == kind for event in costliest) for kind in ("wait", "draining")}
    events = [
        *costliest,
        *owners(rows.owned, timeline, all_of_them=ranges == totals["assignments"]),
        *joins_and_leaves(rows.consumers, timeline),
        *findings(run.findings, timeline, target),
    ]
    shown = {
        "waits": (kept["wait"], totals["blocking"]),
        "draining hashes": (kept["draining"], totals["draining"]),
        "ranges of owners": (ranges, totals["assignments"]),
        "consumers": (len(rows.consumers), totals["consumers"]),
        "findings": (len(run.findings), sum(sum(counts.findings.values()) for counts in run.rules)),
    }
    return events, shown


def _about(run: RunSummary) -> dict[str, Any]:
    first = None if run.from_ts_us is None else f"{moment(run.from_ts_us)} UTC"
    return {"trace": together(run.inputs), "run_key": run.run_key, "first_row": first, "verdict": run.verdict}
