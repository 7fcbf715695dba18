"""Turns every failure of a call into one error of `dispatch_audit.pipeline.errors`, with one message."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dispatch_audit.pipeline.errors import DispatchAuditError, InternalError, UsageError
from dispatch_audit.pipeline.spark_errors import reason_of
from dispatch_audit.pipeline.storage.options import without_values

# ENOSPC and EDQUOT, in the words of the C library.
_FULL_DISK: Final = ("No space left on device", "Disk quota exceeded")
_MAKE_ROOM: Final = "make room where it writes, and in the temporary folder (TMPDIR), and run it again"


@contextmanager
def one_error() -> Iterator[None]:
    """Raises what its body raises as one of the errors of this project; the original is its cause.

    Raises:
        DispatchAuditError: as the body raised it; `InternalError` for what nobody raised on purpose.
    """
    try:
        yield
    except Exception as error:
        raised = reported(error)
        if raised is error:
            raise
        raise raised from error


def reported(error: Exception) -> DispatchAuditError:
    """Returns the error of this project that an error is reported as; itself if it is one."""
    if full := _full_disk(error):
        return full
    if isinstance(error, DispatchAuditError):
        # What an engine or a store said may have what it was given.
        error.args = (without_values(str(error.args[0])),)
        return error
    return InternalError(without_values(f"internal error: {type(error).__name__}: {reason_of(error)}"))


def _full_disk(error: BaseException | None) -> UsageError | None:
    """Returns the error for a disk without room, if that is the cause: engines and tables only pass its text on."""
    if isinstance(error, UsageError) and any(reason in str(error) for reason in _FULL_DISK):
        # Its message already names the file and a way out.
        return None
    while error is not None:
        if reason := next((reason for reason in _FULL_DISK if reason in str(error)), None):
            return UsageError(f"a disk is full: {reason}", _MAKE_ROOM)
        error = error.__cause__ or error.__context__
    return None
