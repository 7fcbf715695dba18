"""Verdicts on `single_holder`, `redelivery_order`, `replay_overtaken` and `first_delivery_order`.

An entry passed an older one of its hash that was held, or waited. Exceptions that the marks of the entries show (E1,
E2, E5, E6) are applied before (`rules.findings.permitted`).
"""

from collections.abc import Mapping

from dispatch_audit.pipeline.contract.known_bugs import Symptom
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.durations import READ_US
from dispatch_audit.pipeline.replay.state.output import KernelFinding
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.values import Mark
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import (
    UNEXPLAINED,
    FindingVerdict,
    milder,
    not_provable,
    unexplained,
)

# A reason as a clause, and the symptoms of the bugs that it shows; without any the finding is a violation.
_Reason = tuple[str, tuple[Symptom, ...]]


def two_holders(finding: KernelFinding, context: FindingContext) -> FindingVerdict:
    """The verdict on an entry that was sent while `other_consumer` held another one of its hash, or had returned it.

    F1, F2, F3 and F11 require that the receiver owns the hash now and that the other consumer owned it when it was sent
    its entry.
    """
    if context.drains:
        return UNEXPLAINED
    if finding.seq in context.misrouted or finding.other_seq in context.misrouted:
        return unexplained("one of the two consumers did not own the hash, and no known flaw explains that")
    joined = context.joined(finding.consumer)
    # A change at the point of a row takes effect after it.
    if joined is not None and joined.seq >= finding.other_seq:
        because, symptoms = _to_a_newcomer(finding, joined, context)
    else:
        because, symptoms = _to_one_connected_before(finding, context)
    if symptoms and finding.other_marks & Mark.REDELIVERED:
        # In a rolling restart the held entry was itself returned before, when a consumer left (#23307).
        symptoms = (*symptoms, "held_after_a_redelivery")
    return context.explained(because, *symptoms)


def _to_a_newcomer(finding: KernelFinding, joined: TracePoint, context: FindingContext) -> _Reason:
    """The reason if the receiver joined after the other consumer was sent its entry.

    The dispatcher may send the receiver entries up to the read position at its join (6.1).
    """
    entry = (finding.ledger, finding.entry)
    read, published, reported = context.when_joining[finding.consumer]
    if reported is not None and entry >= reported:
        because = f"the entry is at or after the read position at the receiver's join, {reported[0]}:{reported[1]}"
        return f"{because}, so the dispatcher had to keep it back", ()
    if read is not None and entry <= read:
        where = f"the entry was read before the receiver joined (entries up to {read[0]}:{read[1]} had been sent)"
        later = (finding.other_ledger, finding.other_entry) > entry and finding.other_seq > finding.since_seq
        # F11: what a leaver returned did not block its hash, so a later entry was sent.
        if later and _was_left_behind(finding.marks) and context.bugs_with("hidden_in_replay"):
            because = f"{where} and returned when a consumer left, and later entries of the hash went to the other"
            return because, ("waited_at_the_join", "hidden_in_replay")
        return f"{where} and waited", ("waited_at_the_join",)
    # Without a reported read position the time of publish decides: a later entry cannot have been read before the join.
    # For a returned entry `since_ts` is the time of its return, so its position decides.
    published_in_time = finding.since_seq == UNKNOWN or finding.since_ts <= joined.ts_us + context.skew_us
    if reported is not None or published_in_time or (published is not None and entry <= published):
        because = "the entry was read before the receiver joined, but no entry from there on had been sent"
        return because, ("read_before_the_join",)
    return "the entry was published after the receiver joined, and recently joined consumers have to wait", ()


def _to_one_connected_before(finding: KernelFinding, context: FindingContext) -> _Reason:
    """The reason if the receiver was connected when the other consumer was sent its entry.

    A join moves hashes only to the newcomer, so a leave moved this one. But on a ring whose points consumers share, a
    join also moves hashes between the others (2.2).
    """
    if context.left_between(finding.other_seq, finding.seq, but_for=finding.other_consumer):
        return "a consumer left since then, and its hashes moved to the remaining consumers", ("moved_by_a_leave",)
    shared = context.config.profile.ring_collision == "shared_by_modulo"
    joined = (stay.joined for stay in context.stays.values() if stay.joined is not None)
    if (
        shared
        and context.config.selector(sticky=False) == "consistent_hashing"
        and any(finding.other_seq <= at.seq < finding.seq for at in joined)
    ):
        because = "a consumer joined since then, which shares ring points with both, and hashes moved between them"
        return because, ("moved_by_a_join",)
    return "no consumer left meanwhile, so no leave moved the hash to the receiver", ()


def _was_left_behind(marks: int) -> bool:
    return marks & (Mark.RETURNED | Mark.NACKED) == Mark.RETURNED


def passes_a_leaver(finding: KernelFinding) -> bool:
    """Whether the consumer of the older entry was leaving and may still have held that entry."""
    return finding.other_marks & Mark.WAITING == 0


def overtaken(finding: KernelFinding, context: FindingContext) -> FindingVerdict:
    """The verdict on an entry that was sent while an older entry of its hash, `other`, waited.

    If a leaving consumer may still have held the older entry, the milder verdict applies (`passes_a_leaver`).
    """
    if finding.seq in context.misrouted:
        verdict = unexplained("the receiver did not own the hash")
    else:
        left_behind = _was_left_behind(finding.other_marks)
        verdict = (
            sent_from_before(finding, finding.seq, finding.ts_us, context)
            # Before E7, which is rarer: under the classic dispatcher every leave causes this (contract 6.5).
            or _hidden(finding, left_behind, context)
            or (_replay_in_flight(finding, context) if left_behind else _unblocked_amid_a_read(finding, context))
            or (two_holders(finding, context) if left_behind else UNEXPLAINED)
        )
    return milder(two_holders(finding, context), verdict) if passes_a_leaver(finding) else verdict


def sent_from_before(finding: KernelFinding, seq: int, ts_us: int, context: FindingContext) -> FindingVerdict | None:
    """The verdict under F12 on a finding, given its dispatch or an earlier one of its entry; None: it is not F12.

    The first consumer that joins after the last one has left rewinds the cursor. The entries of a read from before the
    rewind are still sent to it, and the rewound cursor reads them again, after older entries that the leaver had held
    (contract 6.8). So such an entry waited when the last consumer left, and was sent at most one read after the join.
    """
    rejoin = context.rejoin_before(seq)
    if rejoin is None or not context.bugs_with("read_before_the_rewind"):
        return None
    joined, left = rejoin.joined, rejoin.left
    came_later = finding.since_seq == left.seq or finding.since_ts > left.ts_us + context.skew_us
    if (finding.since_seq != UNKNOWN and came_later) or ts_us > joined.ts_us + READ_US:
        return None
    because = (
        f"at seq {context.names.seq(joined.seq)} a consumer joined after the last one had left, and a "
        "read from before that may have had the entry, which the rewound cursor reads again"
    )
    return context.explained(because, "read_before_the_rewind", exception="E3")


def _replay_in_flight(finding: KernelFinding, context: FindingContext) -> FindingVerdict | None:
    """The verdict under exception E7, as far as rows show its conditions; None: E7 does not apply.

    E7 requires that the entry was read and put back to replay before the older one returned there. It was certainly
    read if a later entry was sent. Otherwise it may have been read if its hash had to wait: the hash drained, or may
    have drained, or its consumer had no permits, or a replay read sent the older entry itself, or a snapshot shows that
    the broker had read further. A normal read also puts all its entries back if entries of a leaver enter replay
    meanwhile, at lower positions (4.10). That leave may even precede the publish of the entry, if entries of the hash
    have waited ever since: a normal read puts an entry back while others of its hash are in replay (4.11). Rows do not
    show the remaining condition, a position in replay below both.
    """
    since_us = finding.ts_us - finding.other_since_ts
    unseen = finding.marks & Mark.UNPUBLISHED != 0 and finding.since_seq == UNKNOWN
    there_before = unseen or UNKNOWN != finding.since_seq < finding.other_since_seq
    if "E7" not in context.exceptions or since_us > READ_US or not there_before:
        return None
    entered = f"the older entry entered replay {since_us / 1000:.3f} ms before, when a consumer left"
    if passes_a_leaver(finding):
        entered = "the older entry entered replay just before, if its consumer was gone by then"
    if finding.marks & Mark.READ and not unseen:
        because = f"{entered}; this entry already waited there, so a replay read may have had it in flight"
        return FindingVerdict("permitted", "E7", (), because)
    since_seq, since_ts = finding.since_seq, finding.since_ts
    if finding.hash_since_seq != UNKNOWN:
        since_seq, since_ts = finding.hash_since_seq, finding.hash_since_ts
    had_to_wait = (
        unseen
        or (finding.other_marks & Mark.REPLAYED and since_seq < finding.other_seq)
        or finding.draining
        or context.drained_before(finding)
        or context.was_short_since(finding.other_consumer, since_ts)
        or context.left_between(since_seq, finding.other_since_seq, but_for=finding.other_consumer)
        or context.doubts.about(finding.hash, since_seq, finding.seq) is not None
        or finding.reported_read
    )
    if not had_to_wait:
        return None
    return not_provable(
        f"{entered}; if this entry already waited there, which no row shows, a replay read may have had it in "
        "flight (E7)"
    )


def _hidden(finding: KernelFinding, left_behind: bool, context: FindingContext) -> FindingVerdict | None:
    """The verdict that it is F11: the classic dispatcher does not see that the older entry waits in replay.

    The dispatcher counts the entries that a leaving consumer held under hash 0. When such an entry is put back to
    replay again, it gets its own hash without being added to the count of that hash, but is subtracted when it is sent
    (4.12). So the count reaches 0 while other entries of the hash still wait, and a normal read, but no replay read,
    passes them.
    """
    # Other entries of the same read, sent just before, may already have marked this entry as read.
    just_read = finding.read_ts == UNKNOWN or finding.ts_us - finding.read_ts < context.skew_us
    by_normal_read = finding.marks & Mark.RETURNED == 0 and just_read
    if left_behind:
        because = "the older entry was returned when its consumer left, and the dispatcher counts it under hash 0"
    elif by_normal_read and finding.other_marks & Mark.READ and finding.left_sent_seq > finding.other_since_seq:
        because = (
            f"at seq {finding.left_sent_seq}, while the older entry waited in replay, the broker sent an entry of the "
            "hash that a leaving consumer had returned, and subtracted it from a count that never included it"
        )
    else:
        return None
    return context.explained(because, "hidden_in_replay") if context.bugs_with("hidden_in_replay") else None


def _unblocked_amid_a_read(finding: KernelFinding, context: FindingContext) -> FindingVerdict | None:
    """The verdict that it is #23870 (contract 4.11): both waited, and draining ended at most one read before."""
    if not context.drained_before(finding, max(finding.since_seq, finding.other_since_seq)):
        return None
    because = "the hash had just stopped draining, and the older entry had been put back to replay before that"
    return context.explained(because, "unblocked_amid_a_read", exception="E8")


def late_first(
    finding: KernelFinding, overtakings: Mapping[int, FindingVerdict], context: FindingContext
) -> FindingVerdict:
    """The verdict on a first delivery after that of a later entry: the verdict on the overtaking, if there was one.

    `overtakings` has, by seq, the verdict on every dispatch that passed a waiting entry of its hash.
    """
    if finding.marks & Mark.UNPUBLISHED != 0 and "E2" in context.exceptions:
        return not_provable("its publish is not in the trace, so it may have been delayed (E2)")
    overtaking = overtakings.get(finding.other_seq)
    if overtaking is None or finding.marks & Mark.READ == 0:
        # After a seek entries wait again, and only dispatches show from which position on. And a dispatch by a read
        # from before a rewind does not show that the cursor has read this entry.
        rewound = sent_from_before(finding, finding.other_seq, finding.other_ts, context)
        unseen = unexplained("no row shows that this entry waited when the later one was sent")
        return rewound or (unseen if overtaking is None else UNEXPLAINED)
    # F11 and F12 last until the entry is sent, even to another owner; #23870 ends with the read.
    lasting = not set(overtaking.known_bugs).isdisjoint(context.bugs_with("hidden_in_replay", "read_before_the_rewind"))
    if finding.consumer != finding.other_consumer and not lasting:
        return UNEXPLAINED
    return overtaking
