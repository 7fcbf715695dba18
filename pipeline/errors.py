"""All errors that the audit raises on purpose, with the exit code of each.

One base class and a shallow tree. `UsageError` means that the call is wrong, `TraceError` that the trace cannot carry a
verdict. A message is one line and ends with the next step for the reader; the command line prints it to stderr without
a traceback.
"""


class DispatchAuditError(Exception):
    """Base of all errors of this project; raised itself only for faults of the audit.

    Attributes:
        exit_code: exit code of the command line (the README has the table).
        way_out: the next step for the reader, or an empty string.
    """

    exit_code = 4

    def __init__(self, message: str, way_out: str = "") -> None:
        super().__init__(message)
        self.way_out = way_out

    def __str__(self) -> str:
        message = " ".join(str(self.args[0]).split())
        return f"{message}; {self.way_out}" if self.way_out else message


class InternalError(DispatchAuditError):
    """Raised for what nobody raised on purpose, a fault of the audit; its cause is the original error."""


class UsageError(DispatchAuditError):
    """Raised when the arguments, the configuration or a target make no sense; nothing was read or written."""

    exit_code = 2


class TraceError(DispatchAuditError):
    """Raised when a trace cannot be audited: unreadable, empty, of an unknown format, or mostly garbage."""

    exit_code = 3


class GaveWayError(DispatchAuditError):
    """Raised when another audit of the same traces and settings wrote the run at the same time; its rows stay."""


class AssignmentError(DispatchAuditError):
    """Raised when a selector refuses a consumer, as that of the broker would; the selector is unchanged.

    Source: contract 2.3 (no interval left to split) and 2.4 (ranges of a STICKY consumer conflict).
    """


class LimitError(TraceError):
    """Raised when more entries are open at one time than the configured limit, which bounds the memory."""


class StateError(TraceError):
    """Raised when an audit cannot continue from the state of an earlier window."""


def not_at_worker(file: str) -> UsageError:
    """The error for a file of a trace that the driver has listed and a worker does not find."""
    way_out = "put it where every worker can read it: on a shared file system or in object storage"
    return UsageError(f"a worker does not find {file}, which the driver has", way_out)
