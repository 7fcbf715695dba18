"""Findings of `draining_stuck` and `stalled`: entries that could be sent and were not (V10, V11).

A starved hash is a finding if no other consumer held it and, while its entries waited for long, its owner was sent
later ones: so the owner had permits, and the broker had read past the waiting entries. If the owner was sent nothing at
all, flow rows have to show that it had permits, and other consumers have to be sent later entries. If no consumer is
sent anything, the whole stall is the finding and not each hash, unless the trace explains the stall.
"""

from collections import Counter

from dispatch_audit.pipeline.contract.known_bugs import label, remedy, titles
from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.contract.severity import Severity
from dispatch_audit.pipeline.plural import entries
from dispatch_audit.pipeline.replay.blocking.starved_hashes import StarvationKind, StarvedHash
from dispatch_audit.pipeline.replay.state.output import ENDINGS, STILL_OPEN
from dispatch_audit.pipeline.replay.state.records import NOBODY
from dispatch_audit.pipeline.replay.state.state import DISPATCHES
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingText, JudgedFinding, RuleFindings, severities
from dispatch_audit.pipeline.replay.verdicts.missing.alibis import doubt_of_waits
from dispatch_audit.pipeline.replay.verdicts.missing.assumed import assumed, is_not_known, of_waits, unknown
from dispatch_audit.pipeline.replay.verdicts.missing.filtered import doubt_of_hash
from dispatch_audit.pipeline.replay.verdicts.naming import position
from dispatch_audit.pipeline.replay.verdicts.stalls.hangs import cut_off, hung
from dispatch_audit.pipeline.replay.verdicts.stalls.replay_growth import growths
from dispatch_audit.pipeline.replay.verdicts.stalls.whole_subscription import stalls, stalls_beyond
from dispatch_audit.pipeline.utc import moment


def stuck_findings(context: FindingContext) -> list[RuleFindings]:
    """The starved hashes and unexplained stalls, by rule, the longest first."""
    found = context.found
    checks: dict[RuleName, int] = {
        "draining_stuck": found.drained,
        "stalled": int(found.dispatcher.checked[DISPATCHES]),
    }
    starved = sorted(found.reported_starved, key=_by_cost)
    by_rule = []
    for rule, checked in checks.items():
        findings = [_of_hash(s, context) for s in starved if _rule(s.kind, context) == rule]
        if rule == "stalled":
            findings += stalls(context) + growths(context) + cut_off(context, context.reported_stalls)
            findings += hung(context, [*context.reported_stalls, *context.reported_waits])
        by_rule.append(RuleFindings(rule, checked, severities(findings) + _beyond(rule, context), findings))
    return by_rule


def _doubt(starved: StarvedHash, context: FindingContext) -> str:
    """Why a starved hash is not provable, as a clause; empty: it is provable."""
    undecided = context.doubts.about(starved.hash, starved.span.from_seq, starved.span.to_seq)
    if undecided is not None:
        return undecided.because
    doubt = (
        doubt_of_hash(context, starved) or doubt_of_waits(context, starved.span.to_seq) or is_not_known(starved.unknown)
    )
    return doubt or unknown(starved.rests_on, context)


def _beyond(rule: RuleName, context: FindingContext) -> Counter[Severity]:
    """The severities of the findings beyond `blocking.intervals_max`, which were only counted."""
    counts: Counter[Severity] = Counter()
    for kind, number in context.found.monitor.starved.beyond.items():
        if _rule(kind, context) == rule:
            counts[_severity(_bugs(kind, context))] += number
    if rule == "stalled" and context.config.sample.is_all:
        counts += stalls_beyond(context)
    return counts


def _rule(kind: StarvationKind, context: FindingContext) -> RuleName:
    return "draining_stuck" if context.drains and kind.drained else "stalled"


def _severity(bugs: tuple[str, ...]) -> Severity:
    return "known_bug" if bugs else "violation"


def _by_cost(starved: StarvedHash) -> tuple[int, int, int]:
    interval = starved.span
    return -(interval.to_ts - interval.from_ts) * starved.entries, interval.from_seq, starved.hash


def _bugs(kind: StarvationKind, context: FindingContext) -> tuple[str, ...]:
    """The bugs that may starve a hash: passed over in replay (contract 6.5), or counted as draining twice (3.9)."""
    passed_over = context.bugs_with("passed_over_in_replay")
    return passed_over or (context.bugs_with("counted_as_draining_again") if kind.counted_again else ())


def _of_hash(starved: StarvedHash, context: FindingContext) -> JudgedFinding:
    doubt = _doubt(starved, context)
    interval, bugs, names = starved.span, () if doubt else _bugs(starved.kind, context), context.names
    severity = "not_provable" if doubt else _severity(bugs)
    taken = assumed(() if doubt else (*starved.rests_on, *of_waits(context)), context)
    head, passed = position(*starved.head), position(*starved.passed)
    owner, seconds = names.spoken(starved.owner), (interval.to_ts - interval.from_ts) / 1e6
    until = (
        "the end of the trace"
        if interval.ended_by == STILL_OPEN
        else f"{moment(interval.to_ts)} (seq {names.seq(interval.to_seq)})"
    )
    moves = [
        f"seq {names.seq(move.at.seq)}: hash {starved.hash} moves from {names.spoken(move.before)} to "
        f"{names.spoken(move.after)}; pending: {entries(move.held)}"
        for move in starved.moves
    ]
    waited = (
        f"{entries(starved.entries)} of hash {starved.hash} waited, the first of them {head}"
        if starved.entries > 1
        else f"entry {head} of hash {starved.hash} waited"
    )
    drained = ""
    if starved.drained_from != NOBODY:
        drained = f" (it had drained from {names.spoken(starved.drained_from)} before)"
    meanwhile = f"{owner} was meanwhile"
    if starved.passed_by != starved.owner:
        meanwhile = f"{owner} had permits; {names.spoken(starved.passed_by)} was meanwhile"
    return JudgedFinding(
        severity=severity,
        seq=interval.to_seq,
        ts_us=interval.to_ts,
        explanation=FindingText(
            what=f"{waited} for {seconds:.3f} s to be sent to {owner}, from {moment(interval.from_ts)} until {until}",
            contrast="although",
            against=(
                f"no other consumer held an entry of the hash{drained} and {meanwhile} sent the later entry {passed}"
            ),
            why=(*titles(bugs, label), *filter(None, [doubt])),
            remedy=remedy(bugs, context.release),
            assumes=taken,
        ),
        evidence=[
            *moves,
            f"seq {names.seq(interval.from_seq)}: from here on no other consumer holds the hash, and {head} waits",
            f"{moment(starved.passed_ts)}: {names.spoken(starved.passed_by)} is sent the later entry {passed}",
        ],
        sticky_hash=starved.hash,
        ledger_id=starved.head[0],
        entry_id=starved.head[1],
        consumer=names.number(starved.owner),
        consumer_name=names.name(starved.owner),
        other_consumer=names.number(starved.drained_from),
        other_consumer_name=names.name(starved.drained_from),
        known_bugs=bugs,
        assumes=taken,
        detail={
            "entries": starved.entries,
            "seconds": seconds,
            "from_seq": names.own_seq(interval.from_seq),
            "ended_by": ENDINGS[interval.ended_by],
            "counted_as_draining": starved.registered,
        },
    )
