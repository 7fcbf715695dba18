"""The request and the result of an audit, for the command line, notebooks and jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dispatch_audit.pipeline.run.baseline import AcceptedFinding, Baseline
from dispatch_audit.pipeline.settings import Settings
from dispatch_audit.pipeline.trace import Trace, UnusableTrace
from dispatch_audit.pipeline.trace.quarantine.refused_row import RefusedRow
from dispatch_audit.pipeline.windows.window import WHOLE, Window


@dataclass(frozen=True)
class AuditRequest:
    """One call of the audit.

    Attributes:
        paths: traces, each a folder, a file or a table; each is audited by itself.
        target: where the tables go, as `dispatch_audit.pipeline.tables.target.parse_target` reads it; empty for a
            validation, which writes none.
        profile: name of the broker profile for all traces; None: chosen by the version in each trace.
        settings: of the audit.
        window: the part of each log to audit.
        reaudit_us: audit the window that holds this moment (microseconds since 1970 UTC) and all later ones again,
            instead of `window`; None: audit `window`.
        baseline: the findings that are accepted; None: no baseline was given.
    """

    paths: tuple[str, ...]
    target: str
    profile: str | None
    settings: Settings
    window: Window = WHOLE
    reaudit_us: int | None = None
    baseline: Baseline | None = None


@dataclass(frozen=True)
class AuditResult:
    """The runs of an audit; the tables have the findings.

    Attributes:
        target: where the tables are.
        run_keys: one run for each trace (audited again: for each window), in the order of the request's paths.
        traces: the trace of each run, with its whole log.
        unusable: why other traces have no run, or none of a window and the later ones.
        stale: what the baseline accepts and whole traces do not have; nothing for a window, as others may have it.
    """

    target: str
    run_keys: tuple[str, ...]
    traces: tuple[Trace, ...]
    unusable: tuple[UnusableTrace, ...] = ()
    stale: tuple[AcceptedFinding, ...] = ()


@dataclass(frozen=True)
class ValidationResult:
    """The result of reading and replaying one trace without tables.

    Attributes:
        path: of the trace.
        profile: name of the broker profile that an audit would apply.
        judged_as: a sentence for a release without a profile: as which release it is judged; None: it has a profile.
        events_in: rows read.
        events_quarantined: rows that an audit would refuse.
        reasons: refused rows by reason code.
        first: the first refused row of each reason.
        rows: the first refused rows, as many as were asked for.
        gaps: rows that report dropped rows.
        rows_dropped: rows that recorders dropped.
        fault: why an audit would refuse the trace, by `trace.quarantine_ratio_max` and `trace.truncated_log`, with the
            next step; empty: it would audit it.
    """

    path: str
    profile: str
    judged_as: str | None
    events_in: int
    events_quarantined: int
    reasons: dict[str, int]
    fault: str
    gaps: int = 0
    rows_dropped: int = 0
    first: Mapping[str, RefusedRow] = field(default_factory=dict)
    rows: Sequence[RefusedRow] = ()

    @property
    def usable(self) -> bool:
        """Whether an audit would accept the trace."""
        return not self.fault
