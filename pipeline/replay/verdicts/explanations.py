"""Findings in words: what happened, what speaks against it, and why it weighs what it weighs."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from pipeline.contract.known_bugs import sentence
from pipeline.contract.rule import Case
from pipeline.contract.rules import NAME_OF, OVERTAKING, RULES
from pipeline.replay.state.state import NACKED, NOBODY, PASSED, RETURNED, UNKNOWN
from pipeline.replay.verdicts import FindingVerdict, passes_a_leaver
from pipeline.replay.verdicts.naming import Names, position
from pipeline.utc import moment

_SENT = "entry {entry} of hash {hash} went to {receiver} {here}"
_HELD = "sent at seq {other_seq} and neither acknowledged nor given back since"


class EpochNamed(NamedTuple):
    """An epoch by its number and the membership change that began it; whether the receiver owns the hash in it."""

    number: int
    change: str
    owned: bool


def evidence(finding: Any, names: Names) -> list[str]:
    """The rows of the trace that prove a finding, oldest first."""
    return [f"seq {names.seq(seq)}: {what}" for seq, what in sorted(_events(finding, names)) if seq != UNKNOWN]


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
    if verdict.known_bugs:
        parts.append(sentence(verdict.known_bugs))
    return "; ".join(parts)


def _broken(finding: Any, names: Names, epoch: EpochNamed) -> str:
    """What happened, and the promise that it breaks."""
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
        "owned": f", because the hash is its own in epoch {epoch.number} ({epoch.change})" if epoch.owned else "",
        "value": finding.value,
        "expected": finding.expected,
        "waited": f"{_since_when(finding.other_marks)} at {moment(finding.other_since_ts)}" if overtaking else "",
        "other_since_seq": names.seq(finding.other_since_seq),
        "draining": "the hash was draining: " if finding.draining else "",
        "routed": "" if finding.other_consumer == NOBODY else "; the selector of this version routes it to {other}",
    }
    words["routed"] = words["routed"].format_map(words)
    case = _case(finding)
    told = rule.sentence if case is None else rule.otherwise.get(case, rule.sentence)
    return told.format(sent=_SENT.format_map(words), held=_HELD.format_map(words), **words)


def _case(finding: Any) -> Case | None:
    """Which special case it is for the rules that have sentences of their own for it."""
    if finding.rule in OVERTAKING:
        return "leaving" if passes_a_leaver(finding) else None
    if finding.acknowledged:
        return "passed" if finding.marks & PASSED else "acknowledged"
    return None
