"""What an audit is asked about one trace: under which profile, into which run, and over which of its windows."""

from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from pipeline.contract.profile import Profile, profile_for, profile_named
from pipeline.run.request import AuditRequest
from pipeline.run.run_key import chain_of, run_key_of
from pipeline.settings import Settings
from pipeline.tables.target import Target, parse_target
from pipeline.trace import Trace, open_traces
from pipeline.windows import chain
from pipeline.windows.window import WHOLE, Window


@dataclass(frozen=True)
class AuditTask:
    """One trace of a request.

    Attributes:
        trace: all of it.
        profile: of its broker.
        inputs: its paths as `runs` names them.
        settings: of the audit.
        target: where the tables are.
        plan: the window to audit; None: all of the log.
    """

    trace: Trace
    profile: Profile
    inputs: list[str]
    settings: Settings
    target: Target
    plan: chain.Plan | None = None

    @property
    def run_key(self) -> str:
        """The run that answers it."""
        window = WHOLE if self.plan is None else self.plan.window
        return run_key_of(self.inputs, self.profile.name, self.settings, window)

    def within(self, spark: SparkSession, window: Window) -> "AuditTask":
        """The same of one window, which without a beginning begins where the log does."""
        return replace(self, plan=chain.planned(self._chain, self._past(spark), window))

    def continued(self, spark: SparkSession, asked: Window) -> "AuditTask":
        """The same of a window, which without a beginning goes on from the newest state before its end."""
        return self.within(spark, chain.continued(self._past(spark), asked))

    def windows_since(self, spark: SparkSession, moment_us: int) -> list[Window]:
        """The windows that were audited, from the one on that holds a moment.

        Raises:
            UsageError: none holds it.
        """
        return chain.windows_since(self._past(spark), moment_us)

    @property
    def _chain(self) -> str:
        return chain_of(self.inputs, self.profile.name, self.settings)

    def _past(self, spark: SparkSession) -> list[chain.Past]:
        return chain.history(spark, self.target, self._chain)


def audit_tasks(request: AuditRequest) -> list[AuditTask]:
    """One for each trace of a request, in their order, about the whole of it. Raises as `open_traces` does."""
    target, settings = parse_target(request.target), request.settings
    return [
        AuditTask(trace, profile_of(trace, request), [_from_here(trace.path)], settings, target)
        for trace in open_traces(request.paths, request.profile)
    ]


def profile_of(trace: Trace, request: AuditRequest) -> Profile:
    """The profile that the request names, or else the one of the broker's version."""
    if request.profile is None:
        return profile_for(trace.manifest.pulsar_version, trace.manifest.settings)
    return profile_named(request.profile)


def _from_here(path: str) -> str:
    """A path as people here write it, so that a checkout elsewhere asks the same question of its samples."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
