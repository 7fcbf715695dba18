"""Verdicts on `redelivery_order`, `replay_overtaken` and `first_delivery_order`: an entry passed an older one.

What the marks alone permit (E1, E2, E5, E6) is decided before (`replay.permitted`).
"""

from collections.abc import Mapping
from typing import Any

from pipeline.contract.severity import SEVERITIES
from pipeline.replay.state.read_position import READ_US
from pipeline.replay.state.state import NACKED, READ, REPLAYED, RETURNED, UNKNOWN, UNPUBLISHED, WAITING
from pipeline.replay.verdicts.context import FindingContext
from pipeline.replay.verdicts.single_holder import recently_joined_flaw, two_holders
from pipeline.replay.verdicts.verdict import UNEXPLAINED, FindingVerdict, unexplained


def passes_a_leaver(finding: Any) -> bool:
    """Whether the older entry of an overtaking may still have been held, by a consumer that was leaving."""
    return bool(finding.other_marks & WAITING == 0)


def overtaken(finding: Any, around: FindingContext) -> FindingVerdict:
    """The verdict on an entry that was sent while an older one of its hash, `other`, waited.

    Where the older one's consumer was leaving, it may have held it still: then what is milder holds.
    """
    if passes_a_leaver(finding):
        either = two_holders(finding, around), _overtaken(finding, around)
        return min(either, key=lambda verdict: SEVERITIES.index(verdict.severity))
    return _overtaken(finding, around)


def _overtaken(finding: Any, around: FindingContext) -> FindingVerdict:
    if around.strayed(finding.seq):
        return unexplained("the receiver did not own the hash")
    left_behind = bool(finding.other_marks & (RETURNED | NACKED) == RETURNED)
    # Before E7, which is rarer: under the classic dispatcher every leave does this (contract 6.5).
    hiding = around.bugs_with("hidden_in_replay")
    hidden = _hidden(finding, left_behind, around.skew_us) if hiding else ""
    if hidden:
        return FindingVerdict("known_bug", None, hiding, hidden)
    in_flight = _replay_in_flight(finding, around) if left_behind else None
    if in_flight is not None:
        return in_flight
    if not left_behind and _unblocked_amid_a_read(finding, around):
        because = "the hash had just stopped draining, and the older one had been refused before it did"
        return FindingVerdict("known_bug", around.exception("E8"), around.bugs_with("unblocked_amid_a_read"), because)
    if left_behind and not around.drains:
        return recently_joined_flaw(finding, around)
    return UNEXPLAINED


def _replay_in_flight(finding: Any, around: FindingContext) -> FindingVerdict | None:
    """E7 as far as rows show it: that another position in replay was smaller than both they do not.

    The entry was in replay before the older one came back to it, so it had been read and refused. It was read if a
    later one was sent. Where none was, it may have been if its hash had to wait since it was published: the hash
    drained, or may have, or the older one itself was sent by a replay read.
    """
    since_us = finding.ts_us - finding.other_since_ts
    unseen = finding.marks & UNPUBLISHED != 0 and finding.since_seq == UNKNOWN
    there_before = unseen or UNKNOWN != finding.since_seq < finding.other_since_seq
    if "E7" not in around.exceptions or since_us > READ_US or not there_before:
        return None
    entered = f"the older one entered replay {since_us / 1000:.3f} ms before, when a consumer left"
    if passes_a_leaver(finding):
        entered = "the older one entered replay just before, if its consumer was gone by then"
    if finding.marks & READ and not unseen:
        because = f"{entered}; this one waited there already, so a replay read may have had it in flight"
        return FindingVerdict("permitted", "E7", (), because)
    waited = finding.other_marks & REPLAYED and finding.since_seq < finding.other_seq
    drained = finding.draining or around.drained_before(finding)
    since_seq, owners = int(finding.since_seq), around.found.doubts
    if unseen or waited or drained or owners.about(int(finding.hash), since_seq, int(finding.seq)) is not None:
        because = (
            f"{entered}; if this one waited there already, which no row shows, a replay read may have had it in "
            "flight (E7)"
        )
        return FindingVerdict("not_provable", because=because)
    return None


def _hidden(finding: Any, left_behind: bool, skew_us: int) -> str:
    """Why the classic dispatcher does not see that the older entry waits in replay (F11); empty if it does.

    What a leaver held it counts under hash 0. Refused once more, such an entry gets its own hash, and counts for that
    only when it is sent, so one too many goes off (4.12): with the last of the count the hash is not seen any more, as
    long as others of it wait. That lets a normal read pass them, and no replay read.
    """
    if left_behind:
        return "the older one was left behind by a consumer, and waits where its hash is not seen"
    # Others of the same read may have been sent just before, which shows that it was read too.
    just_read = finding.read_ts == UNKNOWN or finding.ts_us - finding.read_ts < skew_us
    by_normal_read = finding.marks & RETURNED == 0 and just_read
    if by_normal_read and finding.other_marks & READ and finding.left_sent_seq > finding.other_since_seq:
        return (
            f"what a consumer had left behind of the hash was sent at seq {finding.left_sent_seq}, while the older one "
            "waited in replay, and was taken off a count of the hash that it had never been added to"
        )
    return ""


def _unblocked_amid_a_read(finding: Any, around: FindingContext) -> bool:
    """#23870 (contract 4.11): both waited in replay, and their hash stopped draining at most one read ago."""
    both_read = finding.marks & finding.other_marks & READ != 0
    return bool(around.bugs_with("unblocked_amid_a_read") and both_read and around.drained_before(finding))


def late_first(finding: Any, overtakings: Mapping[int, FindingVerdict], around: FindingContext) -> FindingVerdict:
    """The verdict on a first delivery after that of a later entry: that of the overtaking, if there was one.

    Args:
        finding: of `first_delivery_order`.
        overtakings: by seq, the verdict on every dispatch that passed an entry of its hash which waited.
        around: the subscription and its broker.
    """
    if finding.marks & UNPUBLISHED != 0 and "E2" in around.exceptions:
        return FindingVerdict(
            "not_provable", because="its publish is not in the trace, so it may have been delayed (E2)"
        )
    overtaking = overtakings.get(int(finding.other_seq))
    if overtaking is None:
        return unexplained("when the later one was sent, nothing shows that this one waited")
    if finding.marks & READ == 0:
        return UNEXPLAINED
    # What F11 does lasts until the entry is sent, whoever owns the hash by then; #23870 is over with the read.
    lasting = not set(overtaking.known_bugs).isdisjoint(around.bugs_with("hidden_in_replay"))
    if finding.consumer != finding.other_consumer and not lasting:
        return UNEXPLAINED
    return overtaking
