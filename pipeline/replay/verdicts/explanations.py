"""Findings in words: what happened, which rule it breaks, and the reasons for the verdict."""

from collections.abc import Iterator
from typing import NamedTuple

from dispatch_audit.pipeline.contract.known_bugs import remedy, titles
from dispatch_audit.pipeline.contract.release import Release
from dispatch_audit.pipeline.contract.rule import Case
from dispatch_audit.pipeline.contract.rules import MISROUTED, NAME_OF, OVERTAKING, RULES, SINGLE_HOLDER
from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.replay.settings.assumed import Assumption
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.output import OF_SUBSCRIPTION, KernelFinding
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.verdicts.finding import FindingText, explained
from dispatch_audit.pipeline.replay.verdicts.naming import Names, position
from dispatch_audit.pipeline.replay.verdicts.overtaking import passes_a_leaver
from dispatch_audit.pipeline.replay.verdicts.verdict import FindingVerdict
from dispatch_audit.pipeline.utc import moment


class EpochNamed(NamedTuple):
    """An epoch: its number, the membership change that began it, and whether the receiver owns the hash in it.

    `change` is None before the first join.
    """

    number: int
    change: str | None
    owned: bool


def change_at_issue(finding: KernelFinding, epoch: EpochNamed) -> str | None:
    """The change that began the epoch of a finding, if its text names the owner of the hash; None: it does not."""
    says_owner = finding.rule in MISROUTED or (finding.rule == SINGLE_HOLDER and epoch.owned)
    return epoch.change if says_owner else None


def evidence(finding: KernelFinding, names: Names) -> list[str]:
    """The rows of the trace that prove a finding, oldest first."""
    return [f"seq {names.seq(seq)}: {event}" for seq, event in sorted(_events(finding, names)) if seq != UNKNOWN]


def _events(finding: KernelFinding, names: Names) -> Iterator[tuple[int, str]]:
    rule = RULES[NAME_OF[finding.rule]]
    entry, other = position(finding.ledger, finding.entry), position(finding.other_ledger, finding.other_entry)
    other = entry if finding.other_ledger == UNKNOWN else other
    if finding.other_seq != UNKNOWN:
        yield finding.other_seq, f"{other} dispatched to {names.spoken(finding.other_consumer)}"
    if finding.other_since_seq != UNKNOWN and finding.rule in OVERTAKING and not passes_a_leaver(finding):
        yield finding.other_since_seq, f"{other} {_since_when(finding.other_marks)}"
    if rule.sent_before and finding.sent_before_seq != UNKNOWN:
        yield finding.sent_before_seq, f"{entry} dispatched to {names.spoken(finding.sent_before_to)}"
    done = "acknowledged by" if rule.counted == "acknowledgements" else "dispatched to"
    yield finding.seq, f"{entry} {done} {names.spoken(finding.consumer)}"


def _since_when(marks: int) -> str:
    """The event that made an entry wait, as a participle."""
    if marks & Mark.NACKED:
        return "returned by a redeliver request"
    return "returned when its consumer left" if marks & Mark.RETURNED else "published"


def explanation(
    finding: KernelFinding,
    verdict: FindingVerdict,
    names: Names,
    epoch: EpochNamed,
    release: Release,
    assumes: tuple[Assumption, ...] = (),
) -> FindingText:
    """The finding in words, with the reasons for its verdict and the remedies."""
    rule, words = RULES[NAME_OF[finding.rule]], _words(finding, names, epoch)
    case = _case(finding)
    wording = rule.wording if case is None else rule.otherwise.get(case, rule.wording)
    assert wording is not None, "the kernel checks a rule without a wording"
    why = *_reasons(verdict), *titles(verdict.known_bugs)
    return explained(wording, words, why, remedy(verdict.known_bugs, release), assumes)


def _reasons(verdict: FindingVerdict) -> Iterator[str]:
    prefixes = {"not_provable": "not provable: ", "permitted": f"permitted by {verdict.permitted_by}: "}
    if verdict.because:
        yield prefixes.get(verdict.severity, "") + verdict.because


def _words(finding: KernelFinding, names: Names, epoch: EpochNamed) -> dict[str, object]:
    """The words for the names in braces in the wordings of rules."""
    receiver, other = names.spoken(finding.consumer), names.spoken(finding.other_consumer)
    entry, other_seq = position(finding.ledger, finding.entry), names.seq(finding.other_seq)
    here = f"at {moment(finding.ts_us)} (seq {names.seq(finding.seq)})"
    in_epoch = f"in epoch {epoch.number} ({epoch.change or 'nobody'})"
    waited = ""
    if finding.rule in OVERTAKING:
        waited = f"{_since_when(finding.other_marks)} at {moment(finding.other_since_ts)}"
    return {
        "receiver": receiver,
        "other": other,
        "entry": entry,
        "other_entry": position(finding.other_ledger, finding.other_entry),
        "other_seq": other_seq,
        "here": here,
        "epoch": in_epoch,
        "owned": f", because this consumer owns the hash {in_epoch}" if epoch.owned else "",
        "value": finding.value,
        "expected": finding.expected,
        "held_messages": count(finding.value, "unacknowledged message"),
        "read_entries": entries(finding.read_when_full),
        "redeliver_requests": count(finding.expected, "redeliver request"),
        "waited": waited,
        "other_since_seq": names.seq(finding.other_since_seq),
        "draining": "the hash was draining and " if finding.draining else "",
        "routed": "" if finding.other_consumer == NOBODY else f", which the selector of this version routes to {other}",
        "sent": f"entry {entry} of hash {finding.hash} went to {receiver} {here}",
        "held": f"sent at seq {other_seq} and neither acknowledged nor returned since",
    }


def _case(finding: KernelFinding) -> Case | None:
    """The special case of the finding, for which its rule may have a wording of its own; None: no special case."""
    if finding.rule in OVERTAKING:
        return "leaving" if passes_a_leaver(finding) else None
    if finding.limited == OF_SUBSCRIPTION:
        return "subscription"
    if finding.acknowledged:
        return "passed" if finding.marks & Mark.PASSED else "acknowledged"
    return None
