"""The two answers of an audit: whether order was kept, and whether messages made progress.

A broker may keep the order of every key while it delivers nothing, so one verdict cannot say both. Both answers are
about what could be judged: where a trace shows nothing that a rule could be applied to, the answer is `not_provable`,
and `Missing` names the rows that would have allowed one.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, get_args

from dispatch_audit.pipeline.contract.severity import Severity

Order = Literal["nothing_sent", "kept", "not_provable", "known_bug", "broken"]
"""Whether the rules about order held: nothing was dispatched; none was broken; the trace decides neither; it was broken
in ways that match known bugs only; it was broken."""
Progress = Literal["nothing_sent", "flowing", "not_provable", "held_up", "stalled"]
"""Whether messages made progress: nothing was dispatched; whenever entries waited, some were sent before long; the
trace does not show which entries waited; for `blocking.stall_threshold_ms` or longer nothing was sent to any consumer
although entries waited; entries that could have been sent were not (rules `stalled` and `draining_stuck`)."""
Missing = Literal[
    "keys",
    "consumers",
    "dispatches",
    "publishes",
    "open_entries",
    "acknowledgements",
    "leaves",
    "broker",
    "ending",
    "other_hashes",
    "clock",
    "clocks",
]

ORDERS: Final[tuple[Order, ...]] = get_args(Order)
PROGRESSES: Final[tuple[Progress, ...]] = get_args(Progress)
"""Both from the best to the worst."""

# Longer than verdicts look ahead (`durations.SNAPSHOT_NEAR_US`, and a second for a read), and longer than rows
# are held back (`brackets.WAIT_US_MAX`).
UNSETTLED_US: Final = 60_000_000
"""The time before the end of a window that only the next window reports, in microseconds."""


class Lack(NamedTuple):
    """Something that a trace does not show.

    Attributes:
        what: that it does not show, as an object.
        record: what to record so that the next trace does, as an object.
    """

    what: str
    record: str


MISSING: Final[Mapping[Missing, Lack]] = MappingProxyType(
    {
        "keys": Lack("the keys of the entries", "publishes or dispatches with their keys"),
        "consumers": Lack(
            "who was connected with which hashes",
            "from the first join on, or the broker's statistics with hash ranges as snapshots (what is published after "
            "the second one can be judged)",
        ),
        "dispatches": Lack("what was dispatched", "dispatches"),
        "publishes": Lack("what was published", "publishes"),
        "open_entries": Lack(
            "which entries were open when the recording began",
            "from the first join on, or the broker's statistics with the mark-delete position as snapshots",
        ),
        "acknowledgements": Lack("what consumers acknowledged", "acknowledgements"),
        "leaves": Lack("when consumers left", "leaves"),
        "ending": Lack(
            "what the broker did from its last row on: the log ends in the middle of dispatches and acknowledgements",
            "the broker until it goes on or is stopped, and what its threads do (jstack): it may hang",
        ),
        "other_hashes": Lack("what was sent of the other hashes", "or audit all hashes"),
        "clock": Lack(
            "how long anything took: the clock of the recorder went back",
            "with a clock that is slewed and never set back",
        ),
        "clocks": Lack(
            "how long anything took that began on one broker and ended on the next: their clocks are apart",
            "with clocks of all brokers synchronized (NTP)",
        ),
        "broker": Lack("what the dispatcher did", "inside of the broker (docs/RECORDING.md)"),
    }
)
"""What a trace may lack, by the name in `coverage.missing`."""

_EXPECTED: Final = frozenset({"dispatch_rate_limit", "delayed_delivery"})
_NO_OWNER: Final = "no_owner"

STUCK: Final = ("stalled", "draining_stuck")
"""The rules whose findings are waits: the row of each is the one that ends it."""


def is_expected(cause: str, consumers: object) -> bool:
    """Whether a wait of a whole subscription is what its users asked for, and no reason for an alarm.

    Args:
        cause: of `blocking`.
        consumers: the number of connected consumers; without one nothing can be sent.
    """
    return cause in _EXPECTED or (cause == _NO_OWNER and consumers == 0)


def order_of(found: Collection[Severity], dispatches: int, missing: Collection[Missing]) -> Order:
    """Returns whether order was kept.

    Args:
        found: the severities of the findings of rules about order.
        dispatches: recorded, whether they could be judged or not.
        missing: what the trace lacks, if not one dispatch could be judged.
    """
    if "violation" in found:
        return "broken"
    if "known_bug" in found:
        return "known_bug"
    if "not_provable" in found or missing:
        return "not_provable"
    return "kept" if dispatches else "nothing_sent"


def progress_of(found: Collection[Severity], held_up: bool, dispatches: int, missing: Collection[Missing]) -> Progress:
    """Returns whether messages made progress.

    Args:
        found: the severities of the findings of `stalled` and `draining_stuck`.
        held_up: whether nothing was sent to any consumer for long although entries waited, for no expected cause.
        dispatches: recorded.
        missing: what the trace lacks, so that it does not show which entries waited.
    """
    if "violation" in found or "known_bug" in found:
        return "stalled"
    if held_up:
        return "held_up"
    if "not_provable" in found or missing:
        return "not_provable"
    return "flowing" if dispatches else "nothing_sent"


def worst_order(answers: Iterable[Order]) -> Order:
    """Returns the worst answer of several subscriptions or runs."""
    return max(answers, key=ORDERS.index, default="nothing_sent")


def worst_progress(answers: Iterable[Progress]) -> Progress:
    """Returns the worst answer of several subscriptions or runs."""
    return max(answers, key=PROGRESSES.index, default="nothing_sent")
