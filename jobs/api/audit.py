"""Audits traces, or reads the result of an earlier audit."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from dispatch_audit.jobs.api.arguments import (
    DEFAULT_TARGET,
    Moment,
    PathLike,
    Paths,
    Progress,
    moment_text,
    path_or_none,
    silent,
    texts,
)
from dispatch_audit.jobs.api.audit_result import Audit
from dispatch_audit.jobs.api.preparation import EngineNeeds, parsed_request, session_for
from dispatch_audit.jobs.engines.choice import EngineOption
from dispatch_audit.jobs.engines.load import Load
from dispatch_audit.jobs.logs import log_stage
from dispatch_audit.jobs.one_error import one_error
from dispatch_audit.jobs.reports import check_writable
from dispatch_audit.pipeline.contract.fail_on import FailOn, parse_fail_on
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.report.warnings import warnings_about
from dispatch_audit.pipeline.run.baseline import read_baseline
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.storage.options import options_given
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.windows.window import WHOLE, moment_us, window_of

_VIOLATION: Final = ("violation",)

_log = logging.getLogger(__name__)


def audit(
    traces: Paths,
    *,
    out: PathLike = DEFAULT_TARGET,
    profile: str | None = None,
    fail_on: str | Sequence[str] = _VIOLATION,
    begin_at: Moment | None = None,
    end_at: Moment | None = None,
    reaudit: Moment | None = None,
    baseline: PathLike | None = None,
    write_baseline: PathLike | None = None,
    topics: Sequence[str] = (),
    subscriptions: Sequence[str] = (),
    sample: str | None = None,
    sample_salt: str | None = None,
    config: PathLike | None = None,
    spark: SparkSession | None = None,
    engine: EngineOption = "auto",
    storage_options: Mapping[str, str] | None = None,
    progress: Progress = silent,
    debug: bool = False,
) -> Audit:
    """Audits traces into tables: whether order was kept, and who blocked whom.

    Args:
        traces: folders, logs or tables, each audited by itself.
        out: where the Delta tables go: a folder, a URI or `catalog.schema`.
        profile: of the broker; None: by the version in the trace.
        fail_on: conditions of `--fail-on`, which decide `Audit.failed`.
        begin_at: `--from`: begin here; None: where the last window ended.
        end_at: `--to`: end here, for a growing log.
        reaudit: audit the window that holds this moment, and all later ones, again.
        baseline: a file with findings that are accepted.
        write_baseline: a file that gets what fails, so that nothing fails.
        topics: names or patterns of the topics to audit; none: all.
        subscriptions: the same of subscriptions.
        sample: `--sample`: the share of the hashes to audit, such as `1/64`; None: all that the trace has.
        sample_salt: chooses which hashes belong to the share.
        config: TOML with settings to change.
        spark: a session to run on; None: `engine` says what is started or found.
        engine: as `--engine`.
        storage_options: credentials and settings of object stores, as `--storage-option`; None: from the environment.
        progress: called with the name of each stage as it begins.
        debug: whether to show the output of an engine that is started.

    Raises:
        UsageError: an argument makes no sense, or an engine does not start.
        TraceError: no trace can be audited; if another can, `Audit.unusable` has the error.
        GaveWayError: another audit of the same traces and settings wrote at the same time.
        InternalError: a fault of the audit.
    """
    with one_error(), options_given(storage_options):
        given = {
            "topics": [*topics],
            "subscriptions": [*subscriptions],
            "sample": sample,
            "sample_salt": sample_salt,
        }
        chosen = {name: value for name, value in given.items() if value}
        request, needs = parsed_request(texts(traces), texts(out)[0], profile, path_or_none(config), chosen)
        accepting = None if baseline is None else read_baseline(Path(baseline))
        request = replace(_with_window(request, begin_at, end_at, reaudit), baseline=accepting)
        conditions = parse_fail_on((fail_on,) if isinstance(fail_on, str) else fail_on)
        if write_baseline is not None:
            _refuse_baseline(Path(write_baseline), request, conditions)
        clock = [time.monotonic()]
        progress("start the engine")
        session = session_for(engine, needs, debug, meanwhile_import="dispatch_audit.pipeline.audit", given=spark)
        # Imported here, because `session_for` imports it while the engine starts.
        from dispatch_audit.pipeline.audit import audit as run_audit  # noqa: PLC0415
        from dispatch_audit.pipeline.report.ci.accepting import warning_of, written_baseline  # noqa: PLC0415
        from dispatch_audit.pipeline.report.query import summarise  # noqa: PLC0415

        clock.append(time.monotonic())
        log_stage("start the engine", clock[-1] - clock[-2])
        result = run_audit(session, request, progress)
        clock.append(time.monotonic())
        progress("report")
        summary = summarise(session, result.target, result.run_keys)
        summary = replace(summary, unusable=result.unusable, stale=result.stale)
        clock.append(time.monotonic())
        log_stage("report", clock[-1] - clock[-2])
        warnings = [*warnings_about(summary)]
        if accepting is not None and summary.stale:
            warnings.append(warning_of(accepting.path, summary.stale))
        note = None
        if write_baseline is not None:
            written = written_baseline(session, summary, Path(write_baseline), conditions)
            warnings += written.warnings
            note = written.note
        for warning in warnings:
            _log.warning(warning)
        start_up, audited, reported = (after - before for before, after in pairwise(clock))
        took = f"{start_up:.1f} s to start up, {audited:.1f} s to audit, {reported:.1f} s to report"
        return Audit(summary, conditions, result.traces, note, took, session, storage_options)


def read_audit(
    target: PathLike = DEFAULT_TARGET,
    *,
    run: str | None = None,
    fail_on: str | Sequence[str] = _VIOLATION,
    spark: SparkSession | None = None,
    engine: EngineOption = "auto",
    storage_options: Mapping[str, str] | None = None,
    debug: bool = False,
) -> Audit:
    """Returns a run that an earlier audit wrote.

    Args:
        target: where its tables are.
        run: its key; None: the run that ended last.
        fail_on: conditions of `--fail-on`, which decide `Audit.failed`.
        spark: a session; tables below a local path or in an object store need none.
        engine: as `--engine`, where a session is needed and none is given.
        storage_options: credentials and settings of object stores, as `--storage-option`; None: from the environment.
        debug: whether to show the output of an engine that is started.

    Raises:
        UsageError: there are no tables, or no such run.
        InternalError: a fault of the audit.
    """
    with one_error(), options_given(storage_options):
        conditions = parse_fail_on((fail_on,) if isinstance(fail_on, str) else fail_on)
        parsed = parse_target(texts(target)[0])
        # Imported here, because they import Delta, which a call with wrong arguments should not wait for.
        from dispatch_audit.pipeline.report.query import summarise  # noqa: PLC0415
        from dispatch_audit.pipeline.report.runs import chosen_run  # noqa: PLC0415
        from dispatch_audit.pipeline.tables.way import tables_of  # noqa: PLC0415

        session = spark
        if session is None and (parsed.place is None or (parsed.store is not None and engine == "spark")):
            needs = EngineNeeds(Load.CHUNKS, delta=True)
            session = session_for(engine, needs, debug, meanwhile_import="dispatch_audit.pipeline.report.query")
        run_key = chosen_run(tables_of(session, parsed), run)
        return Audit(
            summarise(session, texts(target)[0], [run_key]), conditions, spark=session, storage_options=storage_options
        )


def _refuse_baseline(path: Path, request: AuditRequest, conditions: FailOn) -> None:
    """Refuses a baseline that cannot be written or would accept nothing, before the work begins."""
    if not conditions.asks_for_findings:
        raise UsageError("no finding fails by this --fail-on, so that --write-baseline accepts none", "leave one out")
    if request.window != WHOLE or request.reaudit_us is not None:
        raise UsageError(
            "--write-baseline takes in all findings of a trace, and a window has some of them",
            "leave --from, --to and --reaudit out",
        )
    check_writable(path)


def _with_window(
    request: AuditRequest, begin_at: Moment | None, end_at: Moment | None, reaudit: Moment | None
) -> AuditRequest:
    """Returns the request with the window, or the windows to audit again, that the arguments name."""
    window = window_of(moment_text(begin_at), moment_text(end_at))
    again = moment_text(reaudit)
    if again is None:
        return replace(request, window=window)
    if window != WHOLE:
        raise UsageError("--reaudit repeats whole windows and takes neither --from nor --to", "leave them out")
    return replace(request, reaudit_us=moment_us(again))
