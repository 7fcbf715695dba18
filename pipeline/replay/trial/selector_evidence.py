"""The evidence for and against the selector by which a subscription is replayed: snapshots and dispatches."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from dispatch_audit.pipeline.contract.rules import OWNERSHIP
from dispatch_audit.pipeline.replay.evidence.reported_assignments import ReportedAssignment
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.records import chosen
from dispatch_audit.pipeline.replay.state.state import DISPATCHES
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription

# Another selector may explain fewer misrouted hashes by chance: with two consumers it explains one hash in two.
_MISROUTED_MIN: Final = 10
_SNAPSHOTS_MIN: Final = 3


class SelectorEvidence(NamedTuple):
    """What rows show of the selector of a replay."""

    agreeing: bool  # whether a snapshot of several consumers reports the hash ranges that the replay has
    alone: int  # the number of snapshots of a single consumer that report them
    # The reported assignments that differ, where the rows determine those of the replay.
    differing: Sequence[ReportedAssignment]
    # Those that differ where the rows leave them open, at the beginning of a trace that does not begin with the first
    # join.
    open: Sequence[ReportedAssignment]
    misrouted: Sequence[TracePoint]  # the dispatches to another consumer than the owner, where the owner is not open
    misrouted_hashes: int  # how many different pairs of hash and receiver they have
    dispatches: int  # the number of dispatches

    @property
    def contradicts(self) -> bool:
        """Whether a snapshot is of the other dispatcher; or none of several consumers agrees, and there is evidence."""
        if any(seen.of_other_dispatcher for seen in self.differing):
            return True
        return not self.agreeing and (bool(self.against) or self.misrouted_hashes >= _MISROUTED_MIN)

    @property
    def against(self) -> Sequence[ReportedAssignment]:
        """The reported assignments that another selector may explain."""
        return self.differing or self.open

    def explains(self, against: "SelectorEvidence", alone_min: int) -> bool:
        """Whether this selector explains what contradicts the claimed one, except for mistakes that a broker may make.

        If there are no snapshots of several consumers, `alone_min` of a single one are enough.
        """
        if len(self.misrouted) > max(1, len(against.misrouted) // 20):
            return False
        if against.against:
            # Consumers that left before the trace began cannot give a selector exactly the ranges of another one.
            return (self.agreeing or self.alone >= alone_min) and 10 * len(self.differing) <= len(against.against)
        return against.misrouted_hashes >= _MISROUTED_MIN

    @property
    def rules_out(self) -> bool:
        """Whether the selector is not the broker's, although no other one explains the rows.

        A broker with a bug routes a few hashes elsewhere, or reports other ranges of a consumer. Here several snapshots
        report other ranges of several consumers and dispatches do not vouch for the selector; or there are no
        snapshots, and a large share of many dispatches goes elsewhere.
        """
        if self.agreeing:
            return False
        elsewhere = 5 * len(self.misrouted) >= self.dispatches
        if sum(seen.differing > 1 for seen in self.differing) >= _SNAPSHOTS_MIN:
            return elsewhere or self.dispatches < _MISROUTED_MIN
        return elsewhere and self.misrouted_hashes >= 5 * _MISROUTED_MIN


def evidence_of(replay: Subscription, until: int) -> SelectorEvidence:
    """The evidence in the rows up to a seq about the selector of a replay; there is none where ranges are declared."""
    loop = replay.loop
    if not loop.membership.owners.routes_by_selector:
        return SelectorEvidence(False, 0, (), (), (), 0, 0)
    seen = [a for a in loop.reported.seen if a.snapshot.seq <= until]
    findings = loop.dispatcher.findings()
    misrouted = chosen(findings, (findings.rule == OWNERSHIP) & (findings.seq <= until))
    misrouted = chosen(misrouted, ~loop.membership.owners.doubts.which(misrouted.seq, misrouted.hash))
    return SelectorEvidence(
        agreeing=loop.reported.confirmed or any(a.agrees and a.consumers > 1 for a in seen),
        alone=sum(a.agrees and a.consumers == 1 for a in seen),
        differing=[a for a in seen if not a.agrees and a.determined],
        open=[a for a in seen if not a.agrees and not a.determined],
        misrouted=sorted(map(TracePoint, misrouted.seq.tolist(), misrouted.ts_us.tolist())),
        misrouted_hashes=len(set(zip(misrouted.hash.tolist(), misrouted.consumer.tolist(), strict=True))),
        dispatches=int(loop.dispatcher.checked[DISPATCHES]),
    )
