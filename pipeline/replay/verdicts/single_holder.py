"""Verdicts on `single_holder`: two consumers hold entries of one hash.

The dispatcher with recently joined consumers (3.x, classic) breaks its promise of a single holder; contract 6.7 says
how rows distinguish its flaws F1 to F4 and F11. The draining dispatcher has #26471 (contract 3.12), but no row
distinguishes that bug from another fault, so two holders are a violation there.
"""

from dispatch_audit.pipeline.contract.known_bugs import Symptom
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.output import KernelFinding
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import UNEXPLAINED, FindingVerdict, unexplained


def two_holders(finding: KernelFinding, context: FindingContext) -> FindingVerdict:
    """The verdict on an entry that was sent while `other_consumer` held another one of its hash, or had returned it.

    F1, F2, F3 and F11 require that the receiver owns the hash now and that the other consumer owned it when it was sent
    its entry.
    """
    if context.drains:
        return UNEXPLAINED
    if context.misrouted(finding.seq) or context.misrouted(finding.other_seq):
        return unexplained("one of the two consumers did not own the hash, and no known flaw explains that")
    joined = context.joined(finding.consumer)
    # A change at the point of a row takes effect after it.
    if joined is not None and joined.seq >= finding.other_seq:
        verdict = _to_a_newcomer(finding, joined, context)
    else:
        verdict = _to_one_connected_before(finding, context)
    if verdict.severity != "known_bug" or finding.other_marks & Mark.REDELIVERED == 0:
        return verdict
    # In a rolling restart the held entry was itself returned before, when a consumer left (#23307).
    return verdict._replace(known_bugs=verdict.known_bugs + context.bugs_with("held_after_a_redelivery"))


def _to_a_newcomer(finding: KernelFinding, joined: TracePoint, context: FindingContext) -> FindingVerdict:
    """The verdict if the receiver joined after the other consumer was sent its entry.

    The dispatcher may send the receiver entries up to the read position at its join (6.1).
    """
    entry = (finding.ledger, finding.entry)
    read, published, reported = context.joins[finding.consumer]
    if reported is not None and entry >= reported:
        return unexplained(
            f"the entry is at or after the read position at the receiver's join, {reported[0]}:{reported[1]}, so the "
            "dispatcher had to keep it back"
        )
    if read is not None and entry <= read:
        where = f"the entry was read before the receiver joined (entries up to {read[0]}:{read[1]} had been sent)"
        if _left_behind_unseen(finding) and context.bugs_with("hidden_in_replay"):
            because = f"{where} and returned when a consumer left, and later entries of the hash went to the other"
            return _known(context, because, "waited_at_the_join", "hidden_in_replay")
        return _known(context, f"{where} and waited", "waited_at_the_join")
    # Without a reported read position the time of publish decides: a later entry cannot have been read before the join.
    # For a returned entry `since_ts` is the time of its return, so its position decides.
    published_in_time = finding.since_seq == UNKNOWN or finding.since_ts <= joined.ts_us + context.skew_us
    if reported is not None or published_in_time or (published is not None and entry <= published):
        because = "the entry was read before the receiver joined, but no entry from there on had been sent"
        return _known(context, because, "read_before_the_join")
    return unexplained("the entry was published after the receiver joined, and recently joined consumers have to wait")


def _left_behind_unseen(finding: KernelFinding) -> bool:
    """Whether it is F11: the entry, which a leaver returned, did not block its hash, so a later one was sent."""
    left_behind = finding.marks & (Mark.RETURNED | Mark.NACKED) == Mark.RETURNED
    later = (finding.other_ledger, finding.other_entry) > (finding.ledger, finding.entry)
    return left_behind and later and finding.other_seq > finding.since_seq


def _to_one_connected_before(finding: KernelFinding, context: FindingContext) -> FindingVerdict:
    """The verdict if the receiver was connected when the other consumer was sent its entry.

    A join moves hashes only to the newcomer, so a leave moved this one. But on a ring whose points consumers share, a
    join also moves hashes between the others (2.2).
    """
    if context.left_between(finding.other_seq, finding.seq, but_for=finding.other_consumer):
        because = "a consumer left since then, and its hashes moved to the remaining consumers"
        return _known(context, because, "moved_by_a_leave")
    if not context.joins_move_hashes:
        return unexplained("no consumer left meanwhile, so no leave moved the hash to the receiver")
    if context.joined_between(finding.other_seq, finding.seq):
        because = "a consumer joined since then, which shares ring points with both, and hashes moved between them"
        return _known(context, because, "moved_by_a_join")
    return unexplained("no consumer left or joined meanwhile, so no change moved the hash to the receiver")


def _known(context: FindingContext, because: str, *symptoms: Symptom) -> FindingVerdict:
    present = context.bugs_with(*symptoms)
    return FindingVerdict("known_bug", None, present, because) if present else UNEXPLAINED
