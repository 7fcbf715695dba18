"""The findings about a selector that the trace claims and the broker contradicts."""

from typing import Final

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.replay.config import CONSISTENT_HASHING, REPLICA_POINTS, ReplayConfig
from dispatch_audit.pipeline.replay.evidence.compared_settings import Contradiction
from dispatch_audit.pipeline.replay.evidence.reported_assignments import ReportedAssignment
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.trial.other_selectors import SelectorClaim, selector_of
from dispatch_audit.pipeline.replay.trial.selector_evidence import SelectorEvidence

UNKNOWN_SELECTOR: Final = "the broker routes hashes by another selector than the trace claims, and which one is unknown"
_EVIDENCE_MAX: Final = 3


def settings_of(config: ReplayConfig) -> tuple[str, ...]:
    """The settings that choose the selector of a subscription without declared ranges (contract 2)."""
    rings = selector_of(config).settings[CONSISTENT_HASHING]
    return (CONSISTENT_HASHING, REPLICA_POINTS) if rings else (CONSISTENT_HASHING,)


def other_selector_found(config: ReplayConfig, other: SelectorClaim, against: SelectorEvidence) -> list[Contradiction]:
    """The contradicted claims where another selector explains the rows: one for each setting.

    Args:
        config: the configuration that the trace claims.
        other: the selector that explains the rows.
        against: what contradicts the claimed one.
    """
    at, evidence, found = _evidence(config, against)
    name = other.named()
    return [
        Contradiction(
            claim,
            f"{found} but those of {name}" if against.against else f"{found}, and {name} explains them",
            value,
            at,
            evidence,
            f"owners are judged by {name} from the start",
        )
        for claim, value in other.contradicted(config)
    ]


def no_selector_found(config: ReplayConfig, against: SelectorEvidence) -> Contradiction:
    """The contradicted claim where no known selector explains the rows."""
    at, evidence, found = _evidence(config, against)
    return Contradiction(
        claim=config.claim(settings_of(config)[-1]),
        shown=f"{found}, and no known selector explains them",
        value="",
        at=at,
        evidence=evidence,
        judged=(
            f"what depends on the owner of a hash is not provable; check {' and '.join(settings_of(config))} and the "
            "version of the broker, and record snapshots with key_hash_ranges"
        ),
    )


def _evidence(config: ReplayConfig, against: SelectorEvidence) -> tuple[TracePoint, tuple[tuple[int, str], ...], str]:
    """The row that shows it, the evidence, and what was found as a clause."""
    claimed = selector_of(config).named()
    if reported := against.against:
        first = reported[0].snapshot
        evidence = tuple((seen.snapshot.seq, _differs(seen, claimed)) for seen in reported[:_EVIDENCE_MAX])
        snapshots = count(len(reported), "snapshot")
        what = "hash ranges" if any(seen.differing for seen in reported) else "values"
        found = f"the {what} in {snapshots} from there on are not those of {claimed}"
        return TracePoint(first.seq, first.ts_us), evidence, found
    seqs = against.misrouted[:_EVIDENCE_MAX]
    evidence = tuple((at.seq, f"an entry goes to another consumer than {claimed} has for its hash") for at in seqs)
    dispatches = count(against.dispatches, "dispatch", "dispatches")
    found = f"{len(against.misrouted):,} of {dispatches} go to other consumers than {claimed} has for the hashes"
    return seqs[0], evidence, found


def _differs(seen: ReportedAssignment, claimed: str) -> str:
    """How a snapshot differs from the claimed selector or dispatcher."""
    listed = f"a snapshot lists {count(seen.consumers, 'consumer')}"
    if seen.differing:
        return f"{listed} with their hash ranges; {claimed} gives {seen.differing} of them other ranges"
    return f"{listed} with values that only the other dispatcher reports"
