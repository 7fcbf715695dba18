"""Findings in words: what happened, what speaks against it, and why it weighs what it weighs."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pipeline.contract.known_bugs import catalogue
from pipeline.contract.rules import RuleName
from pipeline.replay.state.output import RULE_NAMES
from pipeline.replay.state.state import NACKED, NOBODY, PASSED, RETURNED, UNKNOWN
from pipeline.replay.verdicts import FindingVerdict, passes_a_leaver
from pipeline.replay.verdicts.naming import Names, moment, position

_ACKNOWLEDGING: tuple[RuleName, ...] = ("cumulative_ack", "foreign_ack")
_OVERTAKING: tuple[RuleName, ...] = ("redelivery_order", "replay_overtaken")


_SENT = "entry {entry} of hash {hash} went to {receiver} {here}"
_HELD = "sent at seq {other_seq} and neither acknowledged nor given back since"
_OVERTOOK = "{sent}, although the older entry {other_entry} of the hash waited, {waited} (seq {other_since_seq})"
_PASSED_LEAVER = (
    "{sent}, although {other}, which was leaving, still held the older entry {other_entry} of the hash, or had just "
    "given it back"
)
_ACKNOWLEDGED = "{sent} once more, although it was acknowledged"
_PASSED = "{sent} once more, although mark-delete had passed it, without an acknowledgement"
_SENTENCES: Mapping[RuleName, str] = {
    "single_holder": "{sent}{owned}; however {draining}{other} still held {other_entry}, {held}",
    "ownership": "{sent}, but {epoch} the hash is routed to {other}",
    "gap_delivery": "{sent}, but {epoch} no consumer has declared a range with this hash{routed}",
    "first_delivery_order": (
        "{sent} for the first time, after the later entry {other_entry} had gone to {other} (seq {other_seq})"
    ),
    "early_duplicate": "{sent} once more, although {other} still held it, {held}",
    "redelivery_order": _OVERTOOK,
    "replay_overtaken": _OVERTOOK,
    "redelivery_count": (
        "{sent} with redelivery count {value}, but redeliver requests count {expected} since the last restart"
    ),
    "unacked_limit": (
        "{sent}, which then held {value} unacknowledged messages; maxUnackedMessagesPerConsumer is {expected}"
    ),
    "cumulative_ack": "{receiver} acknowledged all up to {entry} {here}, which the broker ignores for Key_Shared",
    "foreign_ack": "{receiver} acknowledged entry {entry} {here}, which {other} held, sent at seq {other_seq}",
}


class EpochNamed(NamedTuple):
    """An epoch by its number and the membership change that began it; whether the receiver owns the hash in it."""

    number: int
    change: str
    owned: bool


def evidence(finding: Any, names: Names) -> list[str]:
    """The rows of the trace that prove a finding, oldest first."""
    return [f"seq {names.seq(seq)}: {what}" for seq, what in sorted(_events(finding, names)) if seq != UNKNOWN]


def _events(finding: Any, names: Names) -> Iterator[tuple[int, str]]:
    rule = RULE_NAMES[finding.rule]
    entry, other = position(finding.ledger, finding.entry), position(finding.other_ledger, finding.other_entry)
    other = entry if finding.other_ledger == UNKNOWN else other
    if finding.other_seq != UNKNOWN:
        yield int(finding.other_seq), f"{other} dispatched to {names.spoken(finding.other_consumer)}"
    if finding.other_since_seq != UNKNOWN and rule in _OVERTAKING and not passes_a_leaver(finding):
        yield int(finding.other_since_seq), f"{other} {_since_when(finding.other_marks)}"
    if rule == "redelivery_count" and finding.sent_before_seq != UNKNOWN:
        yield int(finding.sent_before_seq), f"{entry} dispatched to {names.spoken(finding.sent_before_to)}"
    done = "acknowledged by" if rule in _ACKNOWLEDGING else "dispatched to"
    yield int(finding.seq), f"{entry} {done} {names.spoken(finding.consumer)}"


def _since_when(marks: int) -> str:
    """What made an entry wait."""
    if marks & NACKED:
        return "given back by a redeliver request"
    return "given back when its consumer left" if marks & RETURNED else "published"


def explanation(finding: Any, verdict: FindingVerdict, names: Names, epoch: EpochNamed) -> str:
    """The finding in a sentence, with what explains it."""
    parts = [_broken(finding, names, epoch)]
    if verdict.because and verdict.severity == "not_provable":
        parts.append(f"not provable: {verdict.because}")
    elif verdict.because and verdict.severity == "permitted":
        parts.append(f"permitted by {verdict.permitted_by}: {verdict.because}")
    elif verdict.because:
        parts.append(verdict.because)
    bugs = [catalogue()[bug] for bug in verdict.known_bugs]
    parts += [f"known bug {bug.id}: {bug.title}" for bug in bugs]
    remedies = list(dict.fromkeys(bug.remedy for bug in bugs))
    return " ".join(["; ".join(parts).replace(".;", ";"), *remedies])


def _broken(finding: Any, names: Names, epoch: EpochNamed) -> str:
    """What happened, and the promise that it breaks."""
    rule = RULE_NAMES[finding.rule]
    overtaking = rule in _OVERTAKING
    words = {
        "receiver": names.spoken(finding.consumer),
        "other": names.spoken(finding.other_consumer),
        "entry": position(finding.ledger, finding.entry),
        "other_entry": position(finding.other_ledger, finding.other_entry),
        "other_seq": names.seq(finding.other_seq),
        "hash": finding.hash,
        "here": f"at {moment(finding.ts_us)} (seq {names.seq(finding.seq)})",
        "epoch": f"in epoch {epoch.number} ({epoch.change})",
        "owned": f", because the hash is its own in epoch {epoch.number} ({epoch.change})" if epoch.owned else "",
        "value": finding.value,
        "expected": finding.expected,
        "waited": f"{_since_when(finding.other_marks)} at {moment(finding.other_since_ts)}" if overtaking else "",
        "other_since_seq": names.seq(finding.other_since_seq),
        "draining": "the hash was draining: " if finding.draining else "",
        "routed": "" if finding.other_consumer == NOBODY else "; the selector of this version routes it to {other}",
    }
    words["routed"] = words["routed"].format_map(words)
    sentence = _SENTENCES[rule]
    if overtaking and passes_a_leaver(finding):
        sentence = _PASSED_LEAVER
    if rule == "early_duplicate" and finding.acknowledged:
        sentence = _PASSED if finding.marks & PASSED else _ACKNOWLEDGED
    return sentence.format(sent=_SENT.format_map(words), held=_HELD.format_map(words), **words)
