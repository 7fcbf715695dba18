"""Rows of the trace that the replay refuses because they contradict other rows."""

from typing import Final, NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed

UNKNOWN_CONSUMER: Final = "unknown_consumer"
IMPOSSIBLE_TRANSITION: Final = "impossible_transition"
DUPLICATE_SEQ: Final = "duplicate_seq"
REPEATED_ROW: Final = "repeated_row"
"""The only reason that is no fault of the trace: the row is used once."""


@checkpointed("refused_row")
class Refused(NamedTuple):
    """A refused row, which does not change the state of the replay.

    Attributes:
        seq: the seq of the row.
        reason: one of the codes above, which `dispatch_audit.pipeline.trace.reasons` explains.
        detail: the contradiction as a clause; it lacks its subject where that is `consumer`.
        consumer: the consumer that the clause is about, by the replay's number; None: the clause has its own subject.
    """

    seq: int
    reason: str
    detail: str
    consumer: int | None = None


def repeated_row(seq: int) -> Refused:
    """A row that is dropped because the same row was there before."""
    return Refused(seq, REPEATED_ROW, "the log has the same row more than once")
