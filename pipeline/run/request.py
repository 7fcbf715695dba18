"""What an audit is asked for, independent of who asks: a command line, a notebook or a job."""

from dataclasses import dataclass

from pipeline.settings import Settings
from pipeline.trace import Trace
from pipeline.windows.window import WHOLE, Window


@dataclass(frozen=True)
class AuditRequest:
    """One call of the audit.

    Attributes:
        paths: traces, each a folder, a file or a table; each is audited by itself.
        target: where the tables go, as `pipeline.tables.target.parse_target` reads it; empty for a
            validation, which has none.
        profile: name of the broker profile for all traces; None: by the version that each trace states.
        settings: of the audit.
        window: the part of each log to audit.
        reaudit_us: audit the window that holds this moment (microseconds since 1970 UTC) and all behind it once more,
            instead of `window`; None: do not.
    """

    paths: tuple[str, ...]
    target: str
    profile: str | None
    settings: Settings
    window: Window = WHOLE
    reaudit_us: int | None = None


@dataclass(frozen=True)
class AuditResult:
    """What an audit did; what it found stands in the tables.

    Attributes:
        target: where the tables are.
        run_keys: the runs, one a trace (audited once more: one a window), in the order of the request's paths.
        traces: of each run the trace that it is of, all of its log.
    """

    target: str
    run_keys: tuple[str, ...]
    traces: tuple[Trace, ...]


@dataclass(frozen=True)
class ValidationResult:
    """What reading one trace showed, without a replay and without tables.

    Attributes:
        path: the trace as given.
        profile: name of the broker profile that an audit would apply.
        events_in: rows read.
        events_quarantined: rows that an audit would refuse.
        reasons: refused rows by reason code.
        fault: why an audit would not go on, by `trace.quarantine_ratio_max` and `trace.truncated_log`, with a way out;
            empty: it would.
    """

    path: str
    profile: str
    events_in: int
    events_quarantined: int
    reasons: dict[str, int]
    fault: str

    @property
    def usable(self) -> bool:
        """Whether an audit would go on."""
        return not self.fault
