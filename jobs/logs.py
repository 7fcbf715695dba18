"""Logs a job for a log system: one JSON object a line, on stderr.

The package always logs to `logging`; only `--log-format json` adds a handler that prints the records.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pythonjsonlogger.json import JsonFormatter

from dispatch_audit.pipeline.report.summary import Summary

_log = logging.getLogger(__name__)
# Not the root logger, to which the bridge to the JVM logs every command.
LOGGER: Final = "dispatch_audit"
"""The logger above those of all modules."""
# ASCII, because names that clients choose may hold any character.
_FORMATTER = JsonFormatter(
    "{levelname}{message}",
    style="{",
    rename_fields={"levelname": "level"},
    timestamp="time",
    json_ensure_ascii=True,
)


@contextmanager
def json_logs() -> Iterator[None]:
    """Prints the log records of this project to stderr while its body runs; `extra` becomes fields of the object."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_FORMATTER)
    logger = logging.getLogger(LOGGER)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def json_of_error(message: str, exit_code: int) -> str:
    """Returns an error as the handler of `json_logs` writes it."""
    record = {"levelname": "ERROR", "levelno": logging.ERROR, "msg": message, "exit_code": exit_code}
    return _FORMATTER.format(logging.makeLogRecord(record))


def log_stage(stage: str, seconds: float) -> None:
    """Logs a stage of the job; the audit logs its own stages."""
    _log.info("stage", extra={"run_key": None, "stage": stage, "seconds": seconds, "rows": None})


def log_runs(summary: Summary, exit_code: int) -> None:
    """Logs the answers on each trace, and those of the job with its exit code."""
    for run in summary.runs:
        found = {counts.rule: counts.findings for counts in run.rules if any(counts.findings.values())}
        about = {"run_key": run.run_key, "inputs": run.inputs, "verdict": run.verdict, "order": run.order}
        seconds = {"progress": run.progress, "held_up_seconds": run.held_up_seconds, "completeness": run.completeness}
        rows = {"events": run.events_in, "quarantined": run.events_quarantined, "findings": found}
        _log.info("run", extra={**about, **seconds, **rows})
    answers = {"verdict": summary.verdict, "order": summary.order, "progress": summary.progress}
    _log.info("end", extra={**answers, "exit_code": exit_code})
