"""A log that grows, and the windows of it that tests audit: by commands on the embedded engine, or on Spark."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from conftest import MANIFEST
from embedded_commands import EmbeddedCommands
from pyspark.sql import SparkSession

from benchmarks.window_rows import Reported, Row, reported_by
from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.run.stages import Progress
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.tables import of_runs
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.windows.window import Window, iso_8601

STEP_US = 100_000
TABLES = (
    "metrics",
    "violations",
    "blocking",
    "assignments",
    "draining",
    "consumers",
    "coverage",
    "state",
    "quarantine",
)
# Few rows are easily a large share of few.
_REFUSED_MAX = 0.5


class RefusedError(Exception):
    """The command refused to audit; its text is the exit code and what the command said."""


class Audits(Protocol):
    """Audits a window of some traces and returns the run keys."""

    def __call__(self, traces: Sequence[Path], window: Window, reaudit_us: int | None) -> tuple[str, ...]: ...


def audits_by_command(run_embedded: EmbeddedCommands, target: str, settings: Path) -> Audits:
    """Audits as users do it; `settings` is the file of settings that is written for it."""
    settings.write_text(f"[trace]\nquarantine_ratio_max = {_REFUSED_MAX}\n")

    def audits(traces: Sequence[Path], window: Window, reaudit_us: int | None) -> tuple[str, ...]:
        moments = {"--from": window.from_us, "--to": window.to_us, "--reaudit": reaudit_us}
        asked = [word for name, us in moments.items() if us is not None for word in (name, iso_8601(us))]
        options = ["--out", target, "--config", settings, "--fail-on", "never", "--format", "json", "--quiet"]
        done = run_embedded("audit", *traces, *asked, *options)
        if done.returncode:
            raise RefusedError(f"exit code {done.returncode}: {done.stderr}")
        return tuple(trace["run_key"] for trace in json.loads(done.stdout)["traces"])

    return audits


def audits_on_spark(spark: SparkSession, target: str, progress: Progress = lambda stage: None) -> Audits:
    """Audits in this process, which is told of each stage."""
    settings = load_settings()
    settings = settings.model_copy(
        update={"trace": settings.trace.model_copy(update={"quarantine_ratio_max": _REFUSED_MAX})}
    )

    def audits(traces: Sequence[Path], window: Window, reaudit_us: int | None) -> tuple[str, ...]:
        request = AuditRequest(tuple(map(str, traces)), target, None, settings, window, reaudit_us=reaudit_us)
        return audit(spark, request, progress).run_keys

    return audits


class Growing:
    """A log that rows are added to, and the windows of it that are audited."""

    def __init__(self, audits: Audits, folder: Path, target: str) -> None:
        folder.mkdir()
        (folder / "trace.json").write_text(json.dumps(MANIFEST))
        self.log = folder / "events.jsonl"
        self.log.touch()
        self.folder = folder
        self._audits = audits
        self.target = target
        self._tables = tables_of(None, parse_target(target))

    def add(self, rows: Sequence[Mapping[str, Any] | str]) -> None:
        """Appends rows, or lines of text."""
        with self.log.open("a") as log:
            log.writelines((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)

    def audit(
        self,
        from_us: int | None = None,
        to_us: int | None = None,
        reaudit_us: int | None = None,
        beside: Sequence[Path] = (),
    ) -> tuple[str, ...]:
        """Audits a window, also of the traces beside this one, and returns the run keys."""
        return self._audits((self.folder, *beside), Window(from_us, to_us), reaudit_us)

    def folder_of(self, table: str) -> str:
        """Where a table is."""
        return f"{self.target}/{table}"

    def rows(self, table: str, *run_keys: str) -> Sequence[Row]:
        """The rows of some runs."""
        return self._tables.query(table, "*", f"WHERE {of_runs(run_keys)}")

    def run(self, run_key: str) -> Row:
        """The row of a run."""
        (run,) = self.rows("runs", run_key)
        return run

    def reported(self, *run_keys: str) -> Reported:
        """What runs that follow each other report together."""
        return reported_by(self.target, run_keys)

    def contents(self, *run_keys: str) -> dict[str, list[str]]:
        """All rows of runs, but for their times."""
        return {table: sorted(map(str, self.rows(table, *run_keys))) for table in TABLES}


def at(step: int) -> int:
    """The moment of a row of `service`, or of the row that would stand there."""
    return step * STEP_US


def service(first: int, end: int) -> list[dict[str, Any]]:
    """Rows of a topic with one consumer, row n at step n: a join, then entries published, sent and acknowledged."""
    rows: list[dict[str, Any]] = []
    for step in range(first, end):
        row = {"seq": step * 10, "ts_us": at(step), "topic": "t"}
        consumer = {"subscription": "s", "consumer": 1, "consumer_name": "c1"}
        entry = {"ledger_id": 7, "entry_id": (step - 1) // 3, "batch_size": 1, "key_b64": "b3JkZXItNDI="}
        kind = "join" if step == 0 else ("publish", "dispatch", "ack")[(step - 1) % 3]
        if kind == "publish":
            row |= {"event": kind, **entry}
        elif kind == "dispatch":
            row |= {"event": kind, **consumer, **entry, "redelivery_count": 0}
        elif kind == "ack":
            positions = [{"ledger_id": 7, "entry_id": entry["entry_id"]}]
            row |= {"event": kind, **consumer, "ack_type": "individual", "positions": positions}
        else:
            row |= {"event": kind, **consumer}
        rows.append(row)
    return rows


def later(rows: Sequence[Mapping[str, Any]], steps: int) -> list[dict[str, Any]]:
    """The same rows so many steps later."""
    return [{**row, "seq": row["seq"] + 10 * steps, "ts_us": row["ts_us"] + at(steps)} for row in rows]
