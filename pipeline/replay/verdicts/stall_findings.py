"""Findings of `draining_stuck` and `stalled`: entries that could be sent and were not (V10, V11).

A starved hash is a finding if no other consumer held it and its owner was sent later entries for long while the entries
of the hash waited: then the owner had permits, and the broker had read past them. Where the owner was sent nothing at
all, flow rows have to show that it had permits, and others have to be sent later entries. If nothing is sent to any
consumer, the single hashes are no findings; the whole stall is one, unless the trace explains it.
"""

from collections import Counter

from dispatch_audit.pipeline.contract.known_bugs import bugs_by_symptom, label, remedy, titles
from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.contract.severity import Severity
from dispatch_audit.pipeline.plural import entries
from dispatch_audit.pipeline.replay.blocking.monitor import BlockingMonitor
from dispatch_audit.pipeline.replay.blocking.starved_hashes import StarvationKind, StarvedHash
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.state.output import ENDINGS, STILL_OPEN
from dispatch_audit.pipeline.replay.state.state import DISPATCHES, NOBODY
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult
from dispatch_audit.pipeline.replay.verdicts.finding import Explanation, JudgedFinding
from dispatch_audit.pipeline.replay.verdicts.missing.never_recorded import NO_ACKNOWLEDGEMENT, perhaps_gone
from dispatch_audit.pipeline.replay.verdicts.missing.other_dispatcher import perhaps_other_dispatcher
from dispatch_audit.pipeline.replay.verdicts.naming import Names, position
from dispatch_audit.pipeline.replay.verdicts.rule_findings import RuleFindings, severities
from dispatch_audit.pipeline.replay.verdicts.stalls.whole_subscription import stalls, stalls_beyond
from dispatch_audit.pipeline.utc import moment


def stuck_findings(found: ReplayResult, config: ReplayConfig, per_rule_max: int) -> list[RuleFindings]:
    """The starved hashes and unexplained stalls, by rule, the longest first.

    Args:
        found: the result of the replay.
        config: the configuration of the replay.
        per_rule_max: how many findings of a rule are kept with their evidence; 0: every one.
    """
    names = Names(found.numbers, found.stays, found.recorders)
    checks: dict[RuleName, int] = {"draining_stuck": found.drained, "stalled": int(found.checked[DISPATCHES])}
    starved = sorted(found.reported_starved, key=_by_cost)
    by_rule = []
    for rule, checked in checks.items():
        if rule not in config.profile.rules:
            continue
        findings = [_of_hash(s, names, config, _doubt(s, found)) for s in starved if _rule(s.kind, config) == rule]
        if rule == "stalled":
            findings += stalls(found, names, config)
        counts = severities(findings) + _beyond(rule, found.monitor, config)
        by_rule.append(RuleFindings(rule, checked, counts, findings[: per_rule_max or None]))
    return by_rule


def _doubt(starved: StarvedHash, found: ReplayResult) -> str:
    """Why a starved hash is not provable, as a clause; empty: it is."""
    undecided = found.doubts.about(starved.hash, starved.span.from_seq, starved.span.to_seq)
    if undecided is not None:
        return undecided.because
    if because := perhaps_other_dispatcher(found, starved.span.to_seq):
        return because
    return perhaps_gone(found, starved.span.to_seq) if found.acks_recorded else NO_ACKNOWLEDGEMENT


def _beyond(rule: RuleName, monitor: BlockingMonitor, config: ReplayConfig) -> Counter[Severity]:
    """The severities of the findings beyond `blocking.intervals_max`, which were only counted."""
    counts: Counter[Severity] = Counter()
    for kind, number in monitor.starved.beyond.items():
        if _rule(kind, config) == rule:
            counts[_severity(_bugs(kind, config))] += number
    if rule == "stalled":
        counts += stalls_beyond(monitor, config)
    return counts


def _rule(kind: StarvationKind, config: ReplayConfig) -> RuleName:
    return "draining_stuck" if config.profile.dispatcher == "draining" and kind.drained else "stalled"


def _severity(bugs: tuple[str, ...]) -> Severity:
    return "known_bug" if bugs else "violation"


def _by_cost(starved: StarvedHash) -> tuple[int, int, int]:
    interval = starved.span
    return -(interval.to_ts - interval.from_ts) * starved.entries, interval.from_seq, starved.hash


def _bugs(kind: StarvationKind, config: ReplayConfig) -> tuple[str, ...]:
    """The bugs that it matches: counted twice (3.9), or behind the head of replay (6.5)."""
    shown = bugs_by_symptom(config.version, config.profile)
    return shown["passed_over_in_replay"] or (shown["counted_as_draining_again"] if kind.counted_again else ())


def _of_hash(starved: StarvedHash, names: Names, config: ReplayConfig, doubt: str) -> JudgedFinding:
    interval, bugs = starved.span, () if doubt else _bugs(starved.kind, config)
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
        severity="not_provable" if doubt else _severity(bugs),
        seq=interval.to_seq,
        ts_us=interval.to_ts,
        explanation=Explanation(
            what=(f"{waited} for {seconds:.3f} s to be sent to {owner}, from {moment(interval.from_ts)} until {until}"),
            contrast="although",
            against=(
                f"no other consumer held an entry of the hash{drained} and {meanwhile} sent the later entry {passed}"
            ),
            why=(*titles(bugs, label), *filter(None, [doubt])),
            remedy=remedy(bugs, config.release),
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
        detail={
            "entries": starved.entries,
            "seconds": seconds,
            "from_seq": names.own_seq(interval.from_seq),
            "ended_by": ENDINGS[interval.ended_by],
            "counted_as_draining": starved.registered,
        },
    )
