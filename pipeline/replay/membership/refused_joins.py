"""Joins that a broker refused: they have no consumer, change nothing in the replay, and are facts about clients."""

from typing import Final

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent

KINDS_MAX: Final = 1_000


@checkpointed("refused_joins")
class RefusedJoins:
    """The joins that the broker refused, by the name of the consumer and the reason.

    Attributes:
        total: how many there were.
        kinds: of each name and reason the last row, and how many there were; those beyond `KINDS_MAX` are left out.
    """

    __slots__ = ("kinds", "total")

    def __init__(self) -> None:
        self.total = 0
        self.kinds: dict[tuple[str, str], tuple[MembershipEvent, int]] = {}

    def note(self, row: MembershipEvent) -> None:
        """Counts a join without a consumer number."""
        self.total += 1
        kind = (row.name, row.reason)
        if kind in self.kinds or len(self.kinds) < KINDS_MAX:
            _, before = self.kinds.get(kind, (row, 0))
            self.kinds[kind] = (row, before + 1)
