"""What calls do before they read a trace: check the arguments, and start an engine."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import SparkSession

from dispatch_audit.jobs.engines.choice import EngineOption
from dispatch_audit.jobs.engines.delta import needs_delta, needs_spark
from dispatch_audit.jobs.engines.hadoop import set_in
from dispatch_audit.jobs.engines.load import Load, load_of
from dispatch_audit.jobs.interruption import handler_kept
from dispatch_audit.pipeline.contract.profile import profile_named
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.run.target_beside_traces import refuse_target_in_trace
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.storage.options import given_options
from dispatch_audit.pipeline.tables.target import Target, parse_target
from dispatch_audit.pipeline.tables.threads import both
from dispatch_audit.pipeline.trace import Trace, open_traces
from dispatch_audit.pipeline.trace.manifest import FILE_NAME

if TYPE_CHECKING:
    # It imports the readers of traces, which take a second.
    from dispatch_audit.pipeline.simulate.traffic import Source


_log = logging.getLogger(__name__)
_APP: Final = "dispatch-audit"


class EngineNeeds(NamedTuple):
    """What an engine has to be prepared for.

    Attributes:
        load: of the traces.
        delta: whether Spark needs Delta Lake.
        embeddable: whether the embedded engine can do it.
    """

    load: Load
    delta: bool
    embeddable: bool = False


def engine_needs(target: Target | None, traces: Sequence[Trace]) -> EngineNeeds:
    """Returns the needs of what reads traces, and writes to a target if there is one."""
    return EngineNeeds(load_of(traces), needs_delta(target, traces), not needs_spark(target, traces))


def parsed_request(
    traces: Sequence[str],
    out: str,
    profile: str | None,
    config: Path | None,
    chosen: Mapping[str, object] = MappingProxyType({}),
) -> tuple[AuditRequest, EngineNeeds]:
    """Returns the request, checked as far as possible without an engine, and what it needs of one.

    It warns of unknown names in a `trace.json`. `chosen` replaces settings of section `choice`.
    """
    settings = load_settings(config, chosen)
    if profile is not None:
        profile_named(profile)
    target = parse_target(out) if out else None
    # The audit names those that cannot be opened, after it has audited the others.
    opened = open_traces(traces, profile, unusable=[])
    if target is not None:
        refuse_target_in_trace(target, opened)
    warn_of_unknown_names(opened)
    return AuditRequest(tuple(traces), out, profile, settings), engine_needs(target, opened)


def warn_of_unknown_names(traces: Iterable[Trace]) -> None:
    """Logs a warning for each unknown name in a `trace.json`."""
    for trace in traces:
        for sentence in trace.manifest.unknown_names:
            _log.warning("%s, %s: %s", trace.path, FILE_NAME, sentence)


def traces_in(source: "Source") -> list[Trace]:
    """Returns the trace that a simulation takes its traffic from; none for a described workload."""
    return [source] if isinstance(source, Trace) else []


def needs_of(source: "Source") -> EngineNeeds:
    """What a simulation of a trace or of a described workload needs of an engine."""
    traces = traces_in(source)
    needs = engine_needs(None, traces)
    # Simulating takes long however little is read: in threads of one process it would use one core.
    return needs._replace(load=Load.CHUNKS) if needs.load is Load.BRIEF else needs


def session_for(
    engine: EngineOption,
    needs: EngineNeeds,
    debug: bool,
    *,
    meanwhile_import: str,
    given: SparkSession | None = None,
) -> SparkSession:
    """Returns the session; imports a module while the engine starts.

    Importing the compiler of the replay takes half a second, which a call with wrong arguments should not wait for.

    Args:
        engine: the engine to start.
        needs: what it is prepared for.
        debug: whether to show its output.
        meanwhile_import: the module.
        given: a session that the caller has, and that is taken as it is.

    Raises:
        UsageError: the engine does not start, or a session was given and an engine was asked for.
    """
    if given is not None:
        if engine != "auto":
            raise UsageError("spark= is a session on its own engine, and takes no engine=", "leave one of them out")
        import_module(meanwhile_import)
        set_in(given, given_options())
        return given
    from dispatch_audit.jobs.session import spark_session  # noqa: PLC0415 - an engine is needed from here on only

    def start() -> SparkSession:
        return spark_session(_APP, quiet=not debug, engine=engine, **needs._asdict())

    with handler_kept():
        session, _ = both(start, lambda: import_module(meanwhile_import))
    set_in(session, given_options())
    return session
