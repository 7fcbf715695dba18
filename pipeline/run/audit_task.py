"""The task of auditing one trace: its profile, its run, and its window."""

from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.contract.profile import Profile, profile_for, profile_named
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.run.run_key import chain_of, run_key_of
from dispatch_audit.pipeline.run.target_beside_traces import refuse_target_in_trace
from dispatch_audit.pipeline.settings import Settings
from dispatch_audit.pipeline.tables.target import Target, parse_target
from dispatch_audit.pipeline.trace import Trace, UnusableTrace, open_traces
from dispatch_audit.pipeline.trace.side_by_side import put_together
from dispatch_audit.pipeline.windows import chain
from dispatch_audit.pipeline.windows.window import WHOLE, Window


@dataclass(frozen=True)
class AuditTask:
    """One trace of a request.

    Attributes:
        trace: the whole trace.
        profile: of its broker.
        inputs: its path, as in `runs`.
        settings: of the audit.
        target: where the tables are.
        plan: the window to audit; None: the whole log.
    """

    trace: Trace
    profile: Profile
    inputs: list[str]
    settings: Settings
    target: Target
    plan: chain.Plan | None = None

    @property
    def run_key(self) -> str:
        """The key of the run."""
        window = WHOLE if self.plan is None else self.plan.window
        return run_key_of(self.inputs, self.profile.name, self.settings, window)

    def within(self, spark: SparkSession, window: Window) -> "AuditTask":
        """Returns the task for one window; without a beginning, it begins with the log."""
        return replace(self, plan=chain.planned(self._chain, self._past(spark), window))

    def continued(self, spark: SparkSession, requested: Window) -> "AuditTask":
        """Returns the task for a window; without a beginning, it continues from the newest state before its end."""
        return self.within(spark, chain.continued(self._past(spark), requested))

    def windows_since(self, spark: SparkSession, moment_us: int) -> list[Window]:
        """Returns the audited window that holds a moment and all later ones.

        Raises:
            UsageError: no window holds it.
        """
        return chain.windows_since(self._past(spark), moment_us)

    @property
    def _chain(self) -> str:
        return chain_of(self.inputs, self.profile.name, self.settings)

    def _past(self, spark: SparkSession) -> list[chain.PastWindow]:
        return chain.history(spark, self.target, self._chain)


def audit_tasks(request: AuditRequest, unusable: list[UnusableTrace]) -> list[AuditTask]:
    """Returns a task for each trace of a request, in their order, without a window.

    Args:
        request: the traces.
        unusable: gets the traces that cannot be opened, if another one can.

    Raises:
        UsageError: as `open_traces`, or the target lies in the folder of a trace or around it.
        TraceError: no trace can be opened.
    """
    target, settings = parse_target(request.target), request.settings
    traces = open_traces(request.paths, request.profile, unusable)
    # A window is a part of the log of one recorder.
    if request.window == WHOLE and request.reaudit_us is None:
        traces = put_together(traces)
    traces = [replace(trace, line_bytes_max=settings.trace.line_mb_max << 20) for trace in traces]
    refuse_target_in_trace(target, traces)
    return [AuditTask(trace, profile_of(trace, request), [trace.path], settings, target) for trace in traces]


def profile_of(trace: Trace, request: AuditRequest) -> Profile:
    """Returns the profile that the request names, or else that of the broker's version."""
    if request.profile is None:
        return profile_for(trace.manifest.pulsar_version, trace.manifest.settings)
    return profile_named(request.profile)
