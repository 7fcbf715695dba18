"""Every error the audit raises on purpose, with the exit code it ends a run with.

One base class and a shallow tree. The two sides of a fault are kept apart: `UsageError` means that we were asked
for something impossible, `TraceError` that the recording cannot carry a verdict. A message is one line and ends
with a way out; the command line prints it to stderr and never a traceback.
"""


class DispatchAuditError(Exception):
    """Base of all errors of this project; raised itself only for faults of the audit.

    Attributes:
        exit_code: what the command line exits with (the README has the table).
        way_out: what the reader can do about it, or an empty string.
    """

    exit_code = 4

    def __init__(self, message: str, way_out: str = "") -> None:
        super().__init__(message)
        self.way_out = way_out

    def __str__(self) -> str:
        message = " ".join(str(self.args[0]).split())
        return f"{message}; {self.way_out}" if self.way_out else message


class UsageError(DispatchAuditError):
    """Raised when the arguments, the configuration or a target make no sense; nothing was read or written."""

    exit_code = 2


class TraceError(DispatchAuditError):
    """Raised when a trace cannot be audited: unreadable, empty, of an unknown format, or mostly garbage."""

    exit_code = 3


class GaveWayError(DispatchAuditError):
    """Raised when another audit of the same question wrote the same rows at the same time; its answer stands."""


class AssignmentError(DispatchAuditError):
    """Raised when a selector refuses a consumer, as the broker's would; the selector is unchanged.

    Source: contract 2.3 (no interval left to split) and 2.4 (ranges of a STICKY consumer conflict).
    """


class LimitError(TraceError):
    """Raised when more is open at one time than the configured limit allows, so that memory stays bounded."""


class StateError(TraceError):
    """Raised when what an earlier window left open cannot be gone on from."""
