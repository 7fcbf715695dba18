"""Verdicts on `redelivery_order`, `replay_overtaken` and `first_delivery_order`: an entry passed an older one.

Exceptions that the marks of the entries show (E1, E2, E5, E6) are applied before (`replay.rules.alibis`).
"""

from collections.abc import Mapping

from dispatch_audit.pipeline.replay.durations import READ_US
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.output import KernelFinding
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import (
    UNEXPLAINED,
    FindingVerdict,
    milder,
    not_provable,
    unexplained,
)
from dispatch_audit.pipeline.replay.verdicts.single_holder import two_holders


def passes_a_leaver(finding: KernelFinding) -> bool:
    """Whether the consumer of the older entry was leaving and may still have held that entry."""
    return finding.other_marks & Mark.WAITING == 0


def overtaken(
    finding: KernelFinding, overtakings: Mapping[int, FindingVerdict], context: FindingContext
) -> FindingVerdict:
    """The verdict on an entry that was sent while an older entry of its hash, `other`, waited.

    If a leaving consumer may still have held the older entry, the milder verdict applies (`passes_a_leaver`).
    `overtakings` has, by seq, the verdict on every earlier dispatch that passed a waiting entry of its hash.
    """
    rewound = sent_from_before(finding, finding.seq, finding.ts_us, context)
    rejoin = context.rejoin_before(finding.seq)
    if rewound is None and rejoin is not None and finding.other_since_seq < rejoin.joined.seq:
        # The older entry waits from before the rewind, so the rewound cursor may not have read it yet.
        rewound = still_from_before(finding, finding.sent_before_seq, overtakings, context)
    if rewound is None or context.misrouted(finding.seq):
        return _by_the_older_one(finding, context)
    if rewound.severity == "not_provable":
        return milder(_by_the_older_one(finding, context), rewound)
    return rewound


def _by_the_older_one(finding: KernelFinding, context: FindingContext) -> FindingVerdict:
    verdict = _overtaken(finding, context)
    return milder(two_holders(finding, context), verdict) if passes_a_leaver(finding) else verdict


def _overtaken(finding: KernelFinding, context: FindingContext) -> FindingVerdict:
    if context.misrouted(finding.seq):
        return unexplained("the receiver did not own the hash")
    left_behind = finding.other_marks & (Mark.RETURNED | Mark.NACKED) == Mark.RETURNED
    # Checked before E7, which is rarer: under the classic dispatcher every leave causes this (contract 6.5).
    hiding = context.bugs_with("hidden_in_replay")
    hidden = _hidden(finding, left_behind, context.skew_us) if hiding else ""
    if hidden:
        return FindingVerdict("known_bug", None, hiding, hidden)
    in_flight = _replay_in_flight(finding, context) if left_behind else None
    if in_flight is not None:
        return in_flight
    if not left_behind and _unblocked_amid_a_read(finding, context):
        because = "the hash had just stopped draining, and the older entry had been put back to replay before that"
        return FindingVerdict("known_bug", context.exception("E8"), context.bugs_with("unblocked_amid_a_read"), because)
    return two_holders(finding, context) if left_behind else UNEXPLAINED


def sent_from_before(finding: KernelFinding, seq: int, ts_us: int, context: FindingContext) -> FindingVerdict | None:
    """The verdict under F12 on a finding, given its dispatch or an earlier one of its entry; None: it is not F12.

    The first consumer that joins after the last one has left rewinds the cursor. The entries of a read from before the
    rewind are still sent to it, and the rewound cursor reads them again, after older entries that the leaver had held
    (contract 6.8). So such an entry waited when the last consumer left, and was sent at most one read after the join.
    """
    known = context.bugs_with("read_before_the_rewind")
    rejoin = context.rejoin_before(seq)
    if not known or rejoin is None:
        return None
    joined, left = rejoin.joined, rejoin.left
    waited = finding.since_seq == UNKNOWN or (
        finding.since_seq != left.seq and finding.since_ts <= left.ts_us + context.skew_us
    )
    if not waited or ts_us > joined.ts_us + READ_US:
        return None
    because = (
        f"at seq {context.names.seq(joined.seq)} a consumer joined after the last one had left, and a "
        "read from before that may have had the entry, which the rewound cursor reads again"
    )
    return FindingVerdict("known_bug", context.exception("E3"), known, because)


def still_from_before(
    finding: KernelFinding, sent_seq: int, overtakings: Mapping[int, FindingVerdict], context: FindingContext
) -> FindingVerdict | None:
    """The verdict under F12 on an earlier dispatch of the entry, if it explains the dispatch of the finding too.

    A consumer that returns the entry puts it into replay, which sends it again at once. The rewound cursor reads older
    entries, and this one again, only later.

    Returns:
        None: the earlier dispatch was not under F12, or the cursor was rewound again since then.
    """
    before, bugs = overtakings.get(sent_seq), context.bugs_with("read_before_the_rewind")
    if before is None or set(before.known_bugs).isdisjoint(bugs):
        return None
    return before if context.rejoin_before(finding.seq) == context.rejoin_before(sent_seq) else None


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
    waited = finding.other_marks & Mark.REPLAYED and since_seq < finding.other_seq
    drained = finding.draining or context.drained_before(finding)
    owners = context.doubts
    short = context.was_short_since(finding.other_consumer, since_ts)
    discarded = context.left_between(since_seq, finding.other_since_seq, but_for=finding.other_consumer)
    in_doubt = owners.about(finding.hash, since_seq, finding.seq) is not None
    if unseen or waited or drained or short or discarded or in_doubt or finding.reported_read:
        because = (
            f"{entered}; if this entry already waited there, which no row shows, a replay read may have had it in "
            "flight (E7)"
        )
        return not_provable(because)
    return None


def _hidden(finding: KernelFinding, left_behind: bool, skew_us: int) -> str:
    """Why the classic dispatcher does not see that the older entry waits in replay (F11); empty: it sees it.

    The dispatcher counts the entries that a leaving consumer held under hash 0. When such an entry is put back to
    replay again, it gets its own hash without being added to the count of that hash, but is subtracted when it is sent
    (4.12). So the count reaches 0 while other entries of the hash still wait, and a normal read, but no replay read,
    passes them.
    """
    if left_behind:
        return "the older entry was returned when its consumer left, and the dispatcher counts it under hash 0"
    # Other entries of the same read, sent just before, may already have marked this entry as read.
    just_read = finding.read_ts == UNKNOWN or finding.ts_us - finding.read_ts < skew_us
    by_normal_read = finding.marks & Mark.RETURNED == 0 and just_read
    if by_normal_read and finding.other_marks & Mark.READ and finding.left_sent_seq > finding.other_since_seq:
        return (
            f"at seq {finding.left_sent_seq}, while the older entry waited in replay, the broker sent an entry of the "
            "hash that a leaving consumer had returned, and subtracted it from a count that never included it"
        )
    return ""


def _unblocked_amid_a_read(finding: KernelFinding, context: FindingContext) -> bool:
    """Whether #23870 explains it (contract 4.11): both waited, and draining ended at most one read before."""
    waited_since = max(finding.since_seq, finding.other_since_seq)
    return bool(context.bugs_with("unblocked_amid_a_read") and context.drained_before(finding, waited_since))


def late_first(
    finding: KernelFinding, overtakings: Mapping[int, FindingVerdict], context: FindingContext
) -> FindingVerdict:
    """The verdict on a first delivery after that of a later entry: the verdict on the overtaking, if there was one."""
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
