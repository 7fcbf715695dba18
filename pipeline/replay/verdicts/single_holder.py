"""Verdicts on `single_holder`: two consumers hold entries of one hash.

The dispatcher of recently joined consumers (3.x, classic) promises a single holder but breaks that promise; contract
6.7 says how rows distinguish its flaws F1 to F4 and F11. The draining dispatcher has #26471 (contract 3.12), but no row
distinguishes that bug from another fault, so two holders are a violation there.
"""

from dispatch_audit.pipeline.contract.known_bugs import Symptom
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.output import KernelFinding
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.verdict import UNEXPLAINED, FindingVerdict, unexplained


def two_holders(finding: KernelFinding, context: FindingContext) -> FindingVerdict:
    """The verdict on an entry that went to one consumer while another held an entry of its hash."""
    if context.drains:
        return UNEXPLAINED
    return recently_joined_flaw(finding, context)


def recently_joined_flaw(finding: KernelFinding, context: FindingContext) -> FindingVerdict:
    """The verdict on an entry that passed one which `other_consumer` held or had returned, by F1, F2, F3 and F11.

    All of them require that the receiver owns the hash now, and that the other consumer owned it when it got its entry.
    """
    if context.misrouted(finding.seq) or context.misrouted(finding.other_seq):
        return unexplained("one of the two consumers did not own the hash, and no known flaw explains that")
    joined = context.joined(finding.consumer)
    # A change at the point of a row takes effect after it.
    if joined is not None and joined.seq >= finding.other_seq:
        verdict = _to_a_newcomer(finding, context)
    else:
        verdict = _to_one_connected_before(finding, context)
    if verdict.severity != "known_bug" or finding.other_marks & Mark.REDELIVERED == 0:
        return verdict
    # The sign of a rolling restart: the held entry was itself returned when a consumer left (#23307).
    return verdict._replace(known_bugs=verdict.known_bugs + context.bugs_with("held_after_a_redelivery"))


def _to_a_newcomer(finding: KernelFinding, context: FindingContext) -> FindingVerdict:
    """The verdict if the receiver joined after the other consumer got its entry.

    The dispatcher may send the receiver entries up to the read position at its join (6.1).
    """
    entry = (finding.ledger, finding.entry)
    read, published, reported = context.joins[finding.consumer]
    joined = context.joined(finding.consumer)
    assert joined is not None
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
    # Without the read position the time of the publish decides: a later entry cannot have been read by then.
    # An entry that was returned waits since then, so its position decides.
    published_in_time = finding.since_seq == UNKNOWN or finding.since_ts <= joined.ts_us + context.skew_us
    if reported is not None or published_in_time or (published is not None and entry <= published):
        because = "the entry was read before the receiver joined, but no entry from there on had been sent"
        return _known(context, because, "read_before_the_join")
    return unexplained("the entry was published after the receiver joined, and recently joined consumers have to wait")


def _left_behind_unseen(finding: KernelFinding) -> bool:
    """Whether it is F11: an entry that a leaver returned did not block its hash, so the holder got a later entry."""
    left_behind = finding.marks & (Mark.RETURNED | Mark.NACKED) == Mark.RETURNED
    later = (finding.other_ledger, finding.other_entry) > (finding.ledger, finding.entry)
    return left_behind and later and finding.other_seq > finding.since_seq


def _to_one_connected_before(finding: KernelFinding, context: FindingContext) -> FindingVerdict:
    """The verdict if the receiver was connected when the other consumer got its entry.

    Joins move hashes to newcomers only, so a leave moved this one; or the ring is one whose points consumers share:
    then a join moves hashes between those that were there (2.2).
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
