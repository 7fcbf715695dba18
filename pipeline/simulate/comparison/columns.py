"""What a comparison says of each dispatcher: the measures in words, and how their values are written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dispatch_audit.pipeline.simulate.measures import MeasuresRow, idle_share

_NONE: Final = "-"


@dataclass(frozen=True)
class MeasureColumn:
    """One measure.

    Attributes:
        title: its name, with the unit.
        meaning: what it counts, in a sentence.
        cell: the value of a dispatcher as text.
        wrong: a measure that shows a fault if it is more than 0; empty: the column shows none.
    """

    title: str
    meaning: str
    cell: Callable[[MeasuresRow], str]
    wrong: str = ""

    def is_wrong(self, row: MeasuresRow) -> bool:
        """Whether the dispatcher has the fault that this column shows."""
        return bool(self.wrong and row.get(self.wrong))


def _seconds(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: _NONE if row.get(name) is None else f"{row[name]:,.1f}"


def _count(name: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda row: f"{row[name]:,}" if name in row else _NONE


COLUMNS: Final[Sequence[MeasureColumn]] = (
    MeasureColumn(
        "violations",
        "Findings of the audit that break the contract of Key_Shared; - if it was not audited.",
        _count("violations"),
        "violations",
    ),
    MeasureColumn(
        "known bugs", "Findings of the audit that a known bug of the version explains.", _count("known_bugs")
    ),
    MeasureColumn(
        "blocked message-seconds",
        "How long messages waited because of their hash or its consumer, summed over the messages, by the audit.",
        _seconds("blocked_message_s"),
    ),
    MeasureColumn(
        "first stall, s",
        "When the first stall began: for a second or longer nobody was sent anything, although entries waited and a "
        "consumer had permits; - if there was none. The earliest of any partition.",
        _seconds("stalled_at_s"),
        "no_progress_s",
    ),
    MeasureColumn(
        "no progress, s",
        "How long all stalls of a partition took together, with no progress for any consumer. The longest of any "
        "partition.",
        _seconds("no_progress_s"),
        "no_progress_s",
    ),
    MeasureColumn(
        "largest replay", "The most entries in the replay queue. The most of any partition.", _count("replay_peak")
    ),
    MeasureColumn(
        "most ack holes",
        "The most acknowledged ranges above mark-delete. The most of any partition.",
        _count("ack_holes_peak"),
    ),
    MeasureColumn("messages overflowed", "Messages that PIP-474 wrote to an overflow ledger.", _count("overflowed")),
    MeasureColumn(
        "MB overflowed", "Their size, in millions of bytes.", lambda row: f"{row['overflowed_bytes'] / 1e6:,.1f}"
    ),
    MeasureColumn(
        "read in vain",
        "The share of the entries read that were not sent then, and have to be read again.",
        lambda row: f"{row['entries_read_in_vain'] / max(row['entries_read'], 1):.1%}",
    ),
    MeasureColumn("sent again", "Duplicates: entries sent after they had been sent before.", _count("duplicates")),
    MeasureColumn("never sent", "Entries published and sent to nobody up to the end.", _count("never_sent")),
    MeasureColumn(
        "makespan / bound, s",
        "From the first publish to the last acknowledgement, and the least time that any dispatcher needs. It says "
        "little where entries were never sent. The longest of any partition.",
        lambda row: f"{row['makespan_s']:,.1f} / {row['makespan_bound_s']:,.1f}",
    ),
    MeasureColumn(
        "idle",
        "The share of the time of connected clients in which they processed nothing.",
        lambda row: f"{idle_share(row):.1%}",
    ),
)
