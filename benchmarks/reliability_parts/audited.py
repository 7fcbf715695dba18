"""Audits as the parts of the reliability test make them: on an engine, with tables written in one of two ways."""

import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pyspark.sql import SparkSession

from dispatch_audit.jobs.engines.choice import EngineOption
from dispatch_audit.jobs.session import spark_session
from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import Settings
from dispatch_audit.pipeline.tables.staging import STAGED
from dispatch_audit.pipeline.windows.window import WHOLE, Window

WayName = Literal["delta-rs", "spark"]


@dataclass(frozen=True)
class Means:
    """What audits are made with.

    Attributes:
        engine: of them.
        way: that writes their tables, which lie below a local path in any case.
    """

    engine: EngineOption = "auto"
    way: WayName = "delta-rs"

    @property
    def left_over(self) -> set[str]:
        """Folders that an audit leaves beside its tables: Spark cannot remove one, and leaves it without rows."""
        return {STAGED} if self.way == "spark" else set()

    def session(self) -> SparkSession:
        """Returns the session of this process."""
        return _session(self.engine)

    def target(self, folder: Path) -> str:
        """Returns the folder as the target of an audit; a URI is written through Spark."""
        return str(folder) if self.way == "delta-rs" else f"file://{folder}"

    def audited(self, trace: Path | str, folder: Path, settings: Settings, window: Window = WHOLE) -> str:
        """Audits a trace into the folder; returns the run key."""
        request = AuditRequest((str(trace),), self.target(folder), None, settings, window)
        (run_key,) = audit(self.session(), request, lambda _: None).run_keys
        return run_key

    def command(self, trace: Path | str, folder: Path, *options: str) -> list[str]:
        """Returns the command that audits a trace into the folder in a process of its own, as users start it."""
        main = "from dispatch_audit.jobs.cli import main; main()"
        arguments = ("audit", str(trace), "--out", self.target(folder), "--fail-on", "never", "--engine", self.engine)
        return [sys.executable, "-c", main, *arguments, *options]


@lru_cache
def _session(engine: EngineOption) -> SparkSession:
    return spark_session("dispatch-audit reliability", engine=engine)
