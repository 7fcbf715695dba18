"""Verdicts on `single_holder`: two consumers hold entries of one hash.

The dispatcher of recently joined consumers (3.x, classic) promises a single holder and does not keep it; its flaws F1
to F4 and F11 are told apart by contract 6.7. The draining dispatcher has #26471 (contract 3.12), which leaves nothing
in a trace that would tell it from another fault, so two holders are a violation there.
"""

from typing import Any

from pipeline.contract.known_bugs import Symptom
from pipeline.replay.state.state import NACKED, REDELIVERED, RETURNED, SENT, UNKNOWN
from pipeline.replay.verdicts.context import FindingContext
from pipeline.replay.verdicts.verdict import UNEXPLAINED, FindingVerdict, unexplained


def two_holders(finding: Any, around: FindingContext) -> FindingVerdict:
    """The verdict on an entry that went to one consumer while another held its hash."""
    if around.drains:
        return UNEXPLAINED
    return recently_joined_flaw(finding, around)


def recently_joined_flaw(finding: Any, around: FindingContext) -> FindingVerdict:
    """Which of F1, F2, F3 and F11 let an entry pass an older one that `other_consumer` has or had, if any.

    All of them need the receiver to own the hash now and the other one to have owned it when it was sent its entry.
    """
    if around.strayed(finding.seq) or around.strayed(finding.other_seq):
        return unexplained("one of the two did not own the hash, which no flaw of the dispatcher brings about")
    joined = around.joined(finding.consumer)
    if joined is not None and joined.seq > finding.other_seq:
        verdict = _to_a_newcomer(finding, around)
    else:
        verdict = _to_one_that_was_there(finding, around)
    if verdict.severity != "known_bug" or finding.other_marks & REDELIVERED == 0:
        return verdict
    # What a rolling restart adds to them: the entry that is held was itself left behind by a consumer (#23307).
    return verdict._replace(known_bugs=verdict.known_bugs + around.bugs_with("held_after_a_redelivery"))


def _to_a_newcomer(finding: Any, around: FindingContext) -> FindingVerdict:
    """The receiver joined after the other one got its entry: what it may be sent ends at its read position (6.1)."""
    entry = (int(finding.ledger), int(finding.entry))
    read, reported = around.dispatcher_at_join(finding.consumer)
    joined = around.joined(finding.consumer)
    assert joined is not None
    if reported is not None and entry >= reported:
        return unexplained(
            f"it stands at or behind the read position at the receiver's join, {reported[0]}:{reported[1]}, so the "
            "dispatcher had no reason to send it"
        )
    if read is not None and entry <= read:
        where = f"it was read before the receiver joined (entries up to {read[0]}:{read[1]} had been sent)"
        if _left_behind_unseen(finding) and around.bugs_with("hidden_in_replay"):
            because = f"{where} and left behind by a consumer, and newer ones of the hash then went to the other"
            return _known(around, because, "waited_at_the_join", "hidden_in_replay")
        return _known(around, f"{where} and waited", "waited_at_the_join")
    # Without the read position the publish has to tell: what came later cannot have been read by then.
    published_in_time = finding.since_seq == UNKNOWN or finding.since_ts <= joined.ts_us + around.skew_us
    if finding.marks & SENT == 0 and (reported is not None or published_in_time):
        because = "it was read before the receiver joined, though nothing from there on had been sent"
        return _known(around, because, "read_before_the_join")
    return unexplained("it was published after the receiver had joined, and recently joined consumers have to wait")


def _left_behind_unseen(finding: Any) -> bool:
    """F11: a leaver's entry in replay does not hold its hash back, so the holder got a later one after the leave."""
    left_behind = finding.marks & (RETURNED | NACKED) == RETURNED
    later = (finding.other_ledger, finding.other_entry) > (finding.ledger, finding.entry)
    return bool(left_behind and later and finding.other_seq > finding.since_seq)


def _to_one_that_was_there(finding: Any, around: FindingContext) -> FindingVerdict:
    """The receiver was connected all along: a join gives hashes to the newcomer only, so a leave moved this one."""
    if around.left_between(finding.other_seq, finding.seq, but_for=finding.other_consumer):
        because = "a consumer left since, and its hashes moved to those that remained"
        return _known(around, because, "moved_by_a_leave")
    return unexplained("nobody left meanwhile, so nothing moved the hash to the receiver")


def _known(around: FindingContext, because: str, *symptoms: Symptom) -> FindingVerdict:
    present = around.bugs_with(*symptoms)
    return FindingVerdict("known_bug", None, present, because) if present else UNEXPLAINED
