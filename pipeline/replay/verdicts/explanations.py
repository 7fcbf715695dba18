"""Findings in words: what happened, which rule it breaks, and the reasons for the verdict."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from dispatch_audit.pipeline.contract.known_bugs import sentence
from dispatch_audit.pipeline.contract.release import Release
from dispatch_audit.pipeline.contract.rule import Case
from dispatch_audit.pipeline.contract.rules import NAME_OF, OVERTAKING, RULES
from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.replay.state.output import OF_SUBSCRIPTION
from dispatch_audit.pipeline.replay.state.state import NACKED, NOBODY, PASSED, RETURNED, UNKNOWN
from dispatch_audit.pipeline.replay.verdicts import FindingVerdict, passes_a_leaver
from dispatch_audit.pipeline.replay.verdicts.naming import Names, position
from dispatch_audit.pipeline.utc import moment

_SENT = "entry {entry} of hash {hash} went to {receiver} {here}"
_HELD = "sent at seq {other_seq} and neither acknowledged nor returned since"


class EpochNamed(NamedTuple):
    """The number of an epoch, the membership change that began it, and whether the receiver owns the hash in it."""

    number: int
    change: str
    owned: bool


def evidence(finding: Any, names: Names) -> list[str]:
    """The rows of the trace that prove a finding, oldest first."""
    return [f"seq {names.seq(seq)}: {event}" for seq, event in sorted(_events(finding, names)) if seq != UNKNOWN]


def _events(finding: Any, names: Names) -> Iterator[tuple[int, str]]:
    rule = RULES[NAME_OF[finding.rule]]
    entry, other = position(finding.ledger, finding.entry), position(finding.other_ledger, finding.other_entry)
    other = entry if finding.other_ledger == UNKNOWN else other
    if finding.other_seq != UNKNOWN:
        yield int(finding.other_seq), f"{other} dispatched to {names.spoken(finding.other_consumer)}"
    if finding.other_since_seq != UNKNOWN and finding.rule in OVERTAKING and not passes_a_leaver(finding):
        yield int(finding.other_since_seq), f"{other} {_since_when(finding.other_marks)}"
    if rule.sent_before and finding.sent_before_seq != UNKNOWN:
        yield int(finding.sent_before_seq), f"{entry} dispatched to {names.spoken(finding.sent_before_to)}"
    done = "acknowledged by" if rule.counted == "acknowledgements" else "dispatched to"
    yield int(finding.seq), f"{entry} {done} {names.spoken(finding.consumer)}"


def _since_when(marks: int) -> str:
    """The event since which an entry waits, as a participle."""
    if marks & NACKED:
        return "returned by a redeliver request"
    return "returned when its consumer left" if marks & RETURNED else "published"


def explanation(finding: Any, verdict: FindingVerdict, names: Names, epoch: EpochNamed, release: Release) -> str:
    """The finding in a sentence, with the reasons for its verdict and the remedies."""
    parts = [_broken(finding, names, epoch)]
    if verdict.because and verdict.severity == "not_provable":
        parts.append(f"not provable: {verdict.because}")
    elif verdict.because and verdict.severity == "permitted":
        parts.append(f"permitted by {verdict.permitted_by}: {verdict.because}")
    elif verdict.because:
        parts.append(verdict.because)
    if verdict.known_bugs:
        parts.append(sentence(verdict.known_bugs, release))
    return "; ".join(parts)


def _broken(finding: Any, names: Names, epoch: EpochNamed) -> str:
    """The event and the promise that it breaks."""
    rule = RULES[NAME_OF[finding.rule]]
    overtaking = finding.rule in OVERTAKING
    words = {
        "receiver": names.spoken(finding.consumer),
        "other": names.spoken(finding.other_consumer),
        "entry": position(finding.ledger, finding.entry),
        "other_entry": position(finding.other_ledger, finding.other_entry),
        "other_seq": names.seq(finding.other_seq),
        "hash": finding.hash,
        "here": f"at {moment(finding.ts_us)} (seq {names.seq(finding.seq)})",
        "epoch": f"in epoch {epoch.number} ({epoch.change})",
        "owned": (
            f", because this consumer owns the hash in epoch {epoch.number} ({epoch.change})" if epoch.owned else ""
        ),
        "value": finding.value,
        "expected": finding.expected,
        "held_messages": count(int(finding.value), "unacknowledged message"),
        "read_entries": entries(int(finding.largest)),
        "redeliver_requests": count(int(finding.expected), "redeliver request"),
        "waited": f"{_since_when(finding.other_marks)} at {moment(finding.other_since_ts)}" if overtaking else "",
        "other_since_seq": names.seq(finding.other_since_seq),
        "draining": "the hash was draining and " if finding.draining else "",
        "routed": "" if finding.other_consumer == NOBODY else "; the selector of this version routes it to {other}",
    }
    words["routed"] = words["routed"].format_map(words)
    case = _case(finding)
    sentence_of_rule = rule.sentence if case is None else rule.otherwise.get(case, rule.sentence)
    return sentence_of_rule.format(sent=_SENT.format_map(words), held=_HELD.format_map(words), **words)


def _case(finding: Any) -> Case | None:
    """The special case that the finding is, for rules with an extra sentence for it; None: no special case."""
    if finding.rule in OVERTAKING:
        return "leaving" if passes_a_leaver(finding) else None
    if finding.limited == OF_SUBSCRIPTION:
        return "subscription"
    if finding.acknowledged:
        return "passed" if finding.marks & PASSED else "acknowledged"
    return None
