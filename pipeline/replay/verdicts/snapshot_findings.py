"""Findings of `assignment_mismatch` and `draining_mismatch`: the broker's own snapshot says something else."""

import json

from pipeline.contract.known_bugs import bugs_by_symptom, labels, sentence
from pipeline.contract.rules import RuleName
from pipeline.contract.severity import Severity
from pipeline.replay.snapshots.comparison import Mismatch
from pipeline.replay.subscription.config import ReplayConfig
from pipeline.replay.subscription.result import ReplayResult
from pipeline.replay.verdicts.naming import Names
from pipeline.replay.verdicts.rule_findings import RuleFindings, severities
from pipeline.utc import moment

_NAMED_MAX = 10
_RULES: tuple[RuleName, ...] = ("assignment_mismatch", "draining_mismatch")


def mismatch_findings(found: ReplayResult, config: ReplayConfig, per_rule_max: int) -> list[RuleFindings]:
    """What the snapshots contradict, by rule, in the order of the trace.

    Args:
        found: what the replay found.
        config: what it depended on.
        per_rule_max: how many findings of a rule are kept with their evidence; 0: every one.
    """
    names = Names(found.numbers, found.stays, found.recorders)
    told = []
    for rule in _RULES:
        if rule not in config.profile.rules:
            continue
        differing = [m for m in found.reported_mismatches if m.rule == rule]
        rows = [_row(m, names, config) for m in differing]
        counts = severities(rows)
        # What was not kept weighs as much as it can.
        counts["violation"] += found.comparison.beyond[rule]
        told.append(RuleFindings(rule, found.comparison.compared[rule], +counts, rows[: per_rule_max or None]))
    return told


def _verdict(mismatch: Mismatch, config: ReplayConfig) -> tuple[Severity, tuple[str, ...], str]:
    """What it weighs, the known bugs, and why."""
    if mismatch.undecided:
        return "not_provable", (), f"; {mismatch.undecided}"
    if mismatch.rule == "draining_mismatch" and mismatch.missing and not mismatch.surplus:
        bugs = bugs_by_symptom(config.version, config.profile)["reported_as_draining_still"]
        if bugs:
            return "known_bug", bugs, f"; {sentence(bugs)}"
    return "violation", (), ""


def _row(mismatch: Mismatch, names: Names, config: ReplayConfig) -> dict[str, object]:
    severity, bugs, because = _verdict(mismatch, config)
    snapshot = mismatch.snapshot
    begin, end = names.own_seq(snapshot.seq_begin), names.own_seq(snapshot.seq_end)
    what = "ranges" if mismatch.rule == "assignment_mismatch" else "draining hashes"
    parts = [
        f"{whose} {len(items)} {what} {other} not: {', '.join(items[:_NAMED_MAX])}"
        for whose, other, items in (
            ("the broker has", "the trace does", mismatch.missing),
            ("the trace has", "the broker does", mismatch.surplus),
        )
        if items
    ]
    return {
        "severity": severity,
        "consumer": names.number(mismatch.consumer),
        "consumer_name": names.name(mismatch.consumer),
        "seq": snapshot.seq,
        "ts_us": snapshot.ts_us,
        "known_bug": labels(bugs),
        "detail": json.dumps({"seq_begin": begin, "seq_end": end}),
        "evidence": [f"seq {names.seq(snapshot.seq)}: snapshot taken between seq {begin} and {end}"],
        "explanation": (
            f"of {names.spoken(mismatch.consumer)} at {moment(snapshot.ts_us)} {'; '.join(parts)}{because}"
        ),
    }
