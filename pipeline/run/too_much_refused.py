"""The error for a trace of which the replay refuses too many rows."""

from dispatch_audit.pipeline.bad_rows import QuarantineCounts
from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.trace.quarantine.refused_row import RefusedRow


def too_much_refused(
    path: str, rows_in: int, refused: QuarantineCounts, first: RefusedRow, ratio_max: float
) -> TraceError:
    """Returns the error.

    Args:
        path: of the trace.
        rows_in: rows read.
        refused: rows for the quarantine.
        first: the first row that the replay refuses.
        ratio_max: the allowed share of bad rows.
    """
    return TraceError(
        f"{path}: the replay refuses {refused.early + refused.late} of {rows_in} rows, which do not fit the rows before"
        f" them, more than the allowed share of {ratio_max:g}; the first is {first}",
        "if consumers had joined before the trace begins, set complete_from_start to false in trace.json; or raise"
        " trace.quarantine_ratio_max",
    )
