"""Rows of the trace that only the rows before them show to be unusable."""

from typing import Final, NamedTuple

UNKNOWN_CONSUMER: Final = "unknown_consumer"
IMPOSSIBLE_TRANSITION: Final = "impossible_transition"
DUPLICATE_SEQ: Final = "duplicate_seq"
REPEATED_ROW: Final = "repeated_row"
"""The only reason that is no fault of the trace: the row counts, once."""


class Refused(NamedTuple):
    """One such row; its state is as if it had not been there.

    Attributes:
        seq: its seq.
        reason: one of the codes above, which `dispatch_audit.pipeline.trace.reasons` explains.
        detail: what was wrong.
    """

    seq: int
    reason: str
    detail: str
