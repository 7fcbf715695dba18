"""Findings of `draining_stuck` and `stalled`: what could be sent, and was not (V10, V11).

A hash counts when nobody else held it, and its owner was sent later entries for long while its own waited: so the
owner had permits and the broker had read past them. What lies still because everything does is no finding of a hash;
the whole stall is one, if nothing in the trace explains it.
"""

import json
from collections import Counter
from collections.abc import Sequence

from pipeline.contract.known_bugs import bugs_by_symptom, label, labels, sentence
from pipeline.contract.rules import RuleName
from pipeline.contract.severity import Severity
from pipeline.replay.blocking.attribution import Blocked
from pipeline.replay.blocking.monitor import BlockingMonitor
from pipeline.replay.blocking.starved_hashes import StarvationKind, StarvedHash
from pipeline.replay.state.output import ENDINGS, STILL_OPEN
from pipeline.replay.state.state import DISPATCHES, NOBODY
from pipeline.replay.subscription.config import ReplayConfig
from pipeline.replay.subscription.result import ReplayResult
from pipeline.replay.timeline.undecided_ranges import UndecidedRange
from pipeline.replay.verdicts.naming import Names, Rows, position
from pipeline.replay.verdicts.rule_findings import RuleFindings, severities
from pipeline.utc import moment


def stuck_findings(found: ReplayResult, config: ReplayConfig, per_rule_max: int) -> list[RuleFindings]:
    """What was stuck, by rule, the longest first.

    Args:
        found: what the replay found.
        config: what it depended on.
        per_rule_max: how many findings of a rule are kept with their evidence; 0: every one.
    """
    names = Names(found.numbers, found.stays, found.recorders)
    asked: dict[RuleName, int] = {"draining_stuck": found.drained, "stalled": int(found.checked[DISPATCHES])}
    starved = sorted(found.reported_starved, key=_by_cost)
    told = []
    for rule, checked in asked.items():
        if rule not in config.profile.rules:
            continue
        rows = [
            _hash_row(o, names, config, found.doubts.about(o.hash, o.span.from_seq, o.span.to_seq))
            for o in starved
            if _rule(o.kind, config) == rule
        ]
        if rule == "stalled":
            rows += [
                _stall_row(stall, names, found.doubts.between(stall.span.from_seq, stall.span.to_seq))
                for stall in found.reported_stalls
            ]
        counts = severities(rows) + _beyond(rule, found.monitor, config)
        told.append(RuleFindings(rule, checked, counts, rows[: per_rule_max or None]))
    return told


def _beyond(rule: RuleName, monitor: BlockingMonitor, config: ReplayConfig) -> Counter[Severity]:
    """What was found beyond `blocking.intervals_max`, and only counted."""
    counts: Counter[Severity] = Counter()
    for kind, count in monitor.starved.beyond.items():
        if _rule(kind, config) == rule:
            counts[_severity(_bugs(kind, config))] += count
    if rule == "stalled":
        counts["violation"] += monitor.stalls_beyond
    return counts


def _rule(kind: StarvationKind, config: ReplayConfig) -> RuleName:
    return "draining_stuck" if config.profile.dispatcher == "draining" and kind.drained else "stalled"


def _severity(bugs: tuple[str, ...]) -> Severity:
    return "known_bug" if bugs else "violation"


def _by_cost(starved: StarvedHash) -> tuple[int, int, int]:
    span = starved.span
    return -(span.to_ts - span.from_ts) * starved.entries, span.from_seq, starved.hash


def _bugs(kind: StarvationKind, config: ReplayConfig) -> tuple[str, ...]:
    """The flaws that it matches: counted twice (3.9), or behind the head of replay (6.5)."""
    shown = bugs_by_symptom(config.version, config.profile)
    return shown["passed_over_in_replay"] or (shown["counted_as_draining_again"] if kind.counted_again else ())


def _hash_row(
    starved: StarvedHash, names: Names, config: ReplayConfig, doubt: UndecidedRange | None
) -> dict[str, object]:
    span, bugs = starved.span, _bugs(starved.kind, config) if doubt is None else ()
    head, passed, entries = position(*starved.head), position(*starved.passed), starved.entries
    owner, seconds = names.spoken(starved.owner), (span.to_ts - span.from_ts) / 1e6
    until = (
        "the end of the trace"
        if span.ended_by == STILL_OPEN
        else f"{moment(span.to_ts)} (seq {names.seq(span.to_seq)})"
    )
    moves = [
        f"seq {names.seq(move.at.seq)}: hash {starved.hash} moves from {names.spoken(move.before)} to "
        f"{names.spoken(move.after)}, {move.held} of its entries are held"
        for move in starved.moves
    ]
    drained = ""
    if starved.drained_from != NOBODY:
        drained = f", which {names.spoken(starved.drained_from)} had held before,"
    known = f"; {sentence(bugs, label)}" if bugs else ""
    known += f"; {doubt.because}" if doubt is not None else ""
    return {
        "severity": "not_provable" if doubt is not None else _severity(bugs),
        "sticky_hash": starved.hash,
        "ledger_id": starved.head[0],
        "entry_id": starved.head[1],
        "consumer": names.number(starved.owner),
        "consumer_name": names.name(starved.owner),
        "other_consumer": names.number(starved.drained_from),
        "other_consumer_name": names.name(starved.drained_from),
        "seq": span.to_seq,
        "ts_us": span.to_ts,
        "known_bug": labels(bugs),
        "detail": json.dumps(
            {
                "entries": starved.entries,
                "seconds": seconds,
                "from_seq": names.own_seq(span.from_seq),
                "ended_by": ENDINGS[span.ended_by],
                "counted_as_draining": starved.registered,
            }
        ),
        "evidence": [
            *moves,
            f"seq {names.seq(span.from_seq)}: from here on nobody else holds the hash, and {head} waits",
            f"{moment(starved.passed_ts)}: {owner} is sent the later entry {passed}",
        ],
        "explanation": (
            f"{entries} entries of hash {starved.hash}, the first {head}, were not sent to {owner} for "
            f"{seconds:.3f} s from {moment(span.from_ts)} until {until}, although nobody held any of the hash{drained} "
            f"and {owner} was sent the later entry {passed} meanwhile{known}"
        ),
    }


def _stall_row(stall: Blocked, names: Names, doubts: Sequence[UndecidedRange]) -> dict[str, object]:
    """Nobody was sent anything, although somebody had permits, and nothing says why."""
    span, permits, consumers = stall.span, stall.detail["with_permits"], stall.detail["consumers"]
    seconds = (span.to_ts - span.from_ts) / 1e6
    root = position(*stall.roots[0]) if stall.roots else "none"
    rows: Rows = [
        {
            # Who could have been sent something hangs on who owned what waited.
            "severity": "not_provable" if doubts else "violation",
            "ledger_id": stall.roots[0][0] if stall.roots else None,
            "entry_id": stall.roots[0][1] if stall.roots else None,
            "consumer": names.number(stall.blocking),
            "seq": span.to_seq,
            "ts_us": span.to_ts,
            "detail": json.dumps({**stall.detail, "entries": stall.entries, "seconds": seconds}),
            "evidence": [
                f"seq {names.seq(span.from_seq)}: nothing is sent from here on",
                f"seq {names.seq(span.to_seq)}: until here",
            ],
            "explanation": (
                f"{stall.entries} entries, the oldest {root}, could have been sent for {seconds:.3f} s from "
                f"{moment(span.from_ts)} on, and nothing was sent to any of {consumers} consumers, {permits} of whom "
                f"had permits{f'; {doubts[0].because}' if doubts else ''}"
            ),
        }
    ]
    return rows[0]
