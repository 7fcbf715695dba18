"""The entries that consumers give up while a membership change takes effect.

It is open whether such an entry was pending at the moment of the change: its acknowledgement is settled during the
change, or it is given back by a row that comes before its effect (TRACE_FORMAT, "Phases").
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.packing.events import Code, Events, among

EFFECT_US_MAX: Final = 100_000
"""The longest time from the row of an acknowledgement or a redelivery to its effect."""

_SETTLED = among(Code.ACK_END, Code.ACK_PART_END)
_GIVEN_UP = among(Code.ACK_START, Code.ACK_PART_START, Code.ACK_END, Code.ACK_PART_END, Code.REDELIVER)
_ALL_GIVEN_UP = among(Code.REDELIVER_ALL)


class GivenUp(NamedTuple):
    """What consumers gave up in front of a row.

    Attributes:
        over_seq: the first row by which the change has certainly taken effect.
        entries: positions, as (ledger, entry).
        consumers: the trace's numbers of consumers that gave back all that they held.
    """

    over_seq: int
    entries: frozenset[tuple[int, int]]
    consumers: frozenset[int]

    @property
    def any(self) -> bool:
        """Whether consumers gave anything up."""
        return bool(self.entries or self.consumers)


NOTHING_GIVEN_UP: Final = GivenUp(0, frozenset(), frozenset())


def given_up(rows: Events, later: Events, over_seq: int) -> GivenUp:
    """What consumers gave up in the rows while a change took effect; it has certainly happened in front of `over_seq`.

    An acknowledgement whose end comes in one of the later rows is left out: it was settled only after the change.
    """
    entries = _positions(rows, _GIVEN_UP) - _positions(later, _SETTLED)
    return GivenUp(over_seq, entries, frozenset(rows.consumer[_ALL_GIVEN_UP[rows.code]].tolist()))


def _positions(rows: Events, codes: NDArray[np.bool_]) -> frozenset[tuple[int, int]]:
    named = codes[rows.code]
    return frozenset(zip(rows.ledger[named].tolist(), rows.entry[named].tolist(), strict=True))
