"""Decides from the first rows of a subscription by which selector it is replayed.

The replay begins with the selector that the trace claims. Once a snapshot of several consumers reports the ranges that
this selector gives them, it is confirmed; nearly every trace confirms it in its first snapshots. If snapshots or
dispatches contradict it, the same rows are replayed with the other selectors that may give the reported ranges, and the
first that explains them takes its place from the first row on. So rows are kept until the selector is confirmed, about
`TRIAL_ROWS` of them at most.
If no known selector does, or the contradiction shows only later, the owners of hashes are undecided.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from dispatch_audit.pipeline.contract.rules import OWNERSHIP
from dispatch_audit.pipeline.packing.membership_rows import NEVER, TracePoint
from dispatch_audit.pipeline.packing.packed_batch import Merged
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.config import CONSISTENT_HASHING, REPLICA_POINTS, ReplayConfig
from dispatch_audit.pipeline.replay.evidence.settings_evidence import Contradiction, ReportedAssignment
from dispatch_audit.pipeline.replay.state.records import chosen
from dispatch_audit.pipeline.replay.state.state import DISPATCHES
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription
from dispatch_audit.pipeline.replay.trial.other_selectors import other_selectors, routed, selector_of

TRIAL_ROWS: Final = 1 << 17
"""The number of rows after which the claimed selector stays if nothing contradicts it."""

UNKNOWN_SELECTOR: Final = "the broker routes hashes by another selector than the trace claims, and which one is unknown"
_EVIDENCE_MAX: Final = 3

# Another selector may explain fewer misrouted hashes by chance: with two consumers it explains one hash in two.
_MISROUTED_MIN: Final = 10
_SNAPSHOTS_MIN: Final = 3


class SelectorEvidence(NamedTuple):
    """What rows show of the selector of a replay; nothing where ranges are declared."""

    agreeing: bool = False  # whether a snapshot of several consumers reports the hash ranges that the replay has
    alone: int = 0  # the number of snapshots of a single consumer that report them
    # The reported assignments that differ, where the rows determine those of the replay.
    differing: Sequence[ReportedAssignment] = ()
    # Those that differ where the rows leave them open, at the beginning of a trace that does not begin with the first
    # join.
    open: Sequence[ReportedAssignment] = ()
    # The dispatches to another consumer than the owner, where the owner is not open.
    misrouted: Sequence[TracePoint] = ()
    misrouted_hashes: int = 0  # how many different pairs of hash and receiver they have
    dispatches: int = 0  # the number of dispatches

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


def on_trial(replay: Subscription, parts: Iterator[Merged], goes_on: bool) -> tuple[Subscription, list[Merged]]:
    """Replays the first rows, and chooses the selector; `goes_on` says whether the trace goes on after all parts.

    Returns:
        The replay that goes on, and the parts that it has taken.
    """
    kept: list[Merged] = []
    rows, until = 0, NEVER
    while not replay.loop.reported.confirmed and replay.released.seq < until:
        part = next(parts, None)
        if part is None:
            return _chosen(replay, kept, NEVER, final=not goes_on), kept
        kept.append(part)
        replay.feed(part)
        before, rows = rows, rows + part.events.seq.size
        if before < TRIAL_ROWS <= rows:
            # However the rows are cut into parts, the same ones decide.
            until = int(part.events.seq[TRIAL_ROWS - before - 1])
    return _chosen(replay, kept, until, final=False), kept


def _chosen(claimed: Subscription, kept: Sequence[Merged], until: int, final: bool) -> Subscription:
    if final:
        claimed.close()
    against = evidence_of(claimed, until)
    if not against.contradicts:
        return claimed
    names = {number: stay.row.name for number, stay in claimed.loop.membership.stays.items()}
    sent = [] if against.against else routed(claimed, kept, until)
    for other in other_selectors(claimed.config, against.against, names, sent):
        replay = Subscription(other.applied(claimed.config))
        for part in kept:
            replay.feed(part)
        if final:
            replay.close()
        # All hashes of one consumer look alike in many releases, so one snapshot does not show that it is another one.
        alone_min = 1 if other.is_of_release(claimed.config) else 2
        if evidence_of(replay, until).explains(against, alone_min):
            at, rows, found = _evidence(claimed.config, against)
            name = other.named()
            shown = f"{found} but those of {name}" if against.against else f"{found}, and {name} explains them"
            for claim, value in other.contradicted(claimed.config):
                judged = f"owners are judged by {name} from the start"
                replay.loop.settings.contradict(Contradiction(claim, shown, value, at, rows, judged))
            return replay
    return claimed


def weigh_selector(replay: Subscription) -> None:
    """Notes, before the result of a window, whether the broker contradicts the selector of the replay."""
    loop, config = replay.loop, replay.config
    # The settings that choose the selector of a subscription without declared ranges (contract 2).
    rings = selector_of(config).settings[CONSISTENT_HASHING]
    settings = (CONSISTENT_HASHING, REPLICA_POINTS) if rings else (CONSISTENT_HASHING,)
    if loop.reported.confirmed or loop.reported.seen:
        for name in settings:
            loop.settings.compared(name)
    if loop.reported.confirmed or loop.membership.owners.unknown:
        return
    against = evidence_of(replay, NEVER)
    if against.rules_out:
        at, evidence, found = _evidence(config, against)
        contradiction = Contradiction(
            claim=config.claim(settings[-1]),
            shown=f"{found}, and no known selector explains them",
            value="",
            at=at,
            evidence=evidence,
            judged=(
                f"what depends on the owner of a hash is not provable; check {' and '.join(settings)} and the version "
                "of the broker, and record snapshots with key_hash_ranges"
            ),
        )
        loop.settings.contradict(contradiction)
        loop.disown(UNKNOWN_SELECTOR)


def _evidence(config: ReplayConfig, against: SelectorEvidence) -> tuple[TracePoint, tuple[tuple[int, str], ...], str]:
    """The row that shows it, the evidence, and what was found as a clause."""
    claimed = selector_of(config).named()
    if reported := against.against:
        first = reported[0].snapshot
        evidence = tuple((seen.snapshot.seq, _differs(seen, claimed)) for seen in reported[:_EVIDENCE_MAX])
        what = "hash ranges" if any(seen.differing for seen in reported) else "values"
        found = f"the {what} in {count(len(reported), 'snapshot')} from there on are not those of {claimed}"
        return TracePoint(first.seq, first.ts_us), evidence, found
    seqs = against.misrouted[:_EVIDENCE_MAX]
    evidence = tuple((at.seq, f"an entry goes to another consumer than {claimed} has for its hash") for at in seqs)
    dispatches = count(against.dispatches, "dispatch", "dispatches")
    found = f"{len(against.misrouted):,} of {dispatches} go to other consumers than {claimed} has for the hashes"
    return seqs[0], evidence, found


def _differs(seen: ReportedAssignment, claimed: str) -> str:
    listed = f"a snapshot lists {count(seen.consumers, 'consumer')}"
    if seen.differing:
        return f"{listed} with their hash ranges; {claimed} gives {seen.differing} of them other ranges"
    return f"{listed} with values that only the other dispatcher reports"


def evidence_of(replay: Subscription, until: int) -> SelectorEvidence:
    """The evidence in the rows up to a seq about the selector of a replay; there is none where ranges are declared."""
    loop = replay.loop
    if not loop.membership.owners.routes_by_selector:
        return SelectorEvidence()
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
