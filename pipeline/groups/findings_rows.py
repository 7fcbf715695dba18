"""Rows of `violations`, `metrics` and `coverage`, and the rows that were refused.

They have the findings of all parts of the audit, the part of the trace on which verdicts rest (Q6, Q26), and the
answers on order and progress of a subscription (`contract.answers`).
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, Final

from dispatch_audit.pipeline.contract.answers import STUCK, Missing, is_expected, order_of, progress_of
from dispatch_audit.pipeline.contract.known_bugs import labels
from dispatch_audit.pipeline.contract.rule import About
from dispatch_audit.pipeline.contract.rules import RULES, RuleName
from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS, NEED_A_LOOK, Severity
from dispatch_audit.pipeline.groups.columns import Columns, Rows, columns_of
from dispatch_audit.pipeline.packing.repeated_rows import Refused
from dispatch_audit.pipeline.recorders.recorders import Recorders
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked
from dispatch_audit.pipeline.replay.state.records import NOBODY
from dispatch_audit.pipeline.replay.state.state import ACKNOWLEDGEMENTS
from dispatch_audit.pipeline.replay.subscription.completeness import RowsSeen, Unseen
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult
from dispatch_audit.pipeline.replay.verdicts.alibis import unrecorded
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import JudgedFinding, RuleFindings
from dispatch_audit.pipeline.replay.verdicts.stalls.hangs import ends_in_the_middle

# The fields of a finding that are columns; the other fields become several columns, or text.
_AS_THEY_ARE: Final = [
    field.name
    for field in fields(JudgedFinding)
    if field.name not in ("explanation", "known_bugs", "assumes", "detail")
]


def violations(found: Iterable[RuleFindings], per_rule_max: int) -> Columns:
    """The columns of `violations`: a row for each of the worst findings of a rule and part, at most so many."""
    kept = [(of_rule.rule, finding) for of_rule in found for finding in of_rule.worst[: per_rule_max or None]]
    if not kept:
        return {}
    rules, findings = zip(*kept, strict=True)
    worded = [finding.explanation for finding in findings]
    return {
        "rule": rules,
        **{name: [getattr(finding, name) for finding in findings] for name in _AS_THEY_ARE},
        "known_bug": [labels(finding.known_bugs) for finding in findings],
        "assumes": [[of._asdict() for of in finding.assumes] or None for finding in findings],
        "detail": [None if finding.detail is None else json.dumps(finding.detail) for finding in findings],
        "what": [words.what for words in worded],
        "against": [words.against or None for words in worded],
        "why": [words.why for words in worded],
        "remedy": [words.remedy or None for words in worded],
        "explanation": [words.sentence for words in worded],
    }


def metrics(rules: Sequence[RuleName], found: Iterable[RuleFindings], completeness: float) -> Rows:
    """A row of `metrics` for each rule of the profile, even without findings; several parts may check one rule."""
    totals = {rule: dict.fromkeys(("checked", *COUNT_COLUMNS), 0) for rule in rules}
    for findings in found:
        total = totals[findings.rule]
        total["checked"] += findings.checked
        for column, severity in COUNT_COLUMNS.items():
            total[column] += findings.counts.get(severity, 0)
    return [{"rule": rule, **totals[rule], "completeness": completeness} for rule in rules]


_IDENTIFYING: Final = (
    "rule",
    "topic",
    "subscription",
    "broker",
    "seq",
    "sticky_hash",
    "key_id",
    "ledger_id",
    "entry_id",
    "consumer",
    "other_consumer",
)


def with_finding_ids(columns: Columns) -> Columns:
    """The columns of `violations` of one subscription with `finding_id`, 12 hex digits.

    The digest covers the events, with the recorders' own seqs and numbers, and not the verdict or explanation, so a
    finding keeps its id if a later version judges or words it differently. Findings with the same events are numbered.
    """
    rows = len(columns["rule"])
    seen: Counter[str] = Counter()
    ids = []
    for row in zip(*(columns.get(name, [None] * rows) for name in _IDENTIFYING), strict=True):
        identity = json.dumps(row)
        ids.append(hashlib.sha256(f"{identity} {seen[identity]}".encode()).hexdigest()[:12])
        seen[identity] += 1
    return {"finding_id": ids, **columns}


_OF_DISPATCHES: Final = ("dispatches", "first deliveries")


def coverage(counted: RowsSeen, refused: int, unseen: Unseen, left_out: int) -> dict[str, Any]:
    """The row of a subscription: `refused` rows were not used, and `left_out` intervals of waiting were not kept."""
    unjudged = refused + unseen.rows_censored + unseen.dispatches_undecided + unseen.dispatches_without_key
    judged = max(counted.rows - unjudged, 0)
    recorded = counted.rows + counted.dropped
    return {
        "completeness": judged / recorded if recorded else 1.0,
        "rows": counted.rows,
        "rows_judged": judged,
        "rows_refused": refused,
        **unseen._asdict(),
        "gaps": counted.gaps,
        "rows_dropped": counted.dropped,
        "first_gap_ts_us": counted.first_gap_us,
        "clock_steps_back": counted.clock_steps,
        "seq_missing": counted.seq_missing,
        "intervals_left_out": left_out,
    }


def refused(rows: Iterable[Refused], recorders: Recorders) -> Columns:
    """A row for each row of the trace that was refused; consumers have the recorders' own numbers."""
    found = []
    for row in rows:
        of_whom = "" if row.consumer is None else f"consumer {recorders.spoken_consumer(row.consumer)} "
        found.append({"seq": row.seq, "reason": row.reason, "detail": f"{of_whom}{row.detail}"})
    return columns_of(found)


def answers(
    context: FindingContext, findings: Sequence[RuleFindings], counted: RowsSeen, refused: int, held: Counter[About]
) -> dict[str, object]:
    """The columns of `coverage` with both answers on a subscription.

    `held` has the number of findings and long waits that are held back, by the question that they concern.
    """
    found, sampled = context.found, not context.config.sample.is_all
    of_order = [of for of in findings if RULES[of.rule].about == "order"]
    judged = max((of.checked for of in of_order if RULES[of.rule].counted in _OF_DISPATCHES), default=0)
    unjudged = [] if judged else _unjudged(found, counted, refused)
    if sampled and not counted.dispatches:
        unjudged = ["other_hashes"]
    waits_unseen = _waits_unseen(found, counted, unjudged)
    if sampled and not waits_unseen:
        waits_unseen = ["other_hashes"]
    by_kind = _without_progress(context.reported_waits)
    held_up, expected = (max(by_kind[kind], key=_seconds, default=None) for kind in (False, True))
    if found.clock.back_from_seq is not None:
        waits_unseen, held_up, expected = ["clock"], None, None
    elif context.recorders.apart and not waits_unseen:
        waits_unseen = ["clocks"]
    held_back: dict[About, set[Severity]] = {about: {"not_provable"} for about in held if held[about]}
    order = _severities(of_order) | held_back.get("order", set())
    stuck = _severities(of for of in findings if of.rule in STUCK) | held_back.get("progress", set())
    progress = progress_of(stuck, held_up is not None, counted.dispatches, waits_unseen)
    return {
        "dispatches": counted.dispatches,
        "dispatches_judged": min(judged, counted.dispatches),
        "order_verdict": order_of(order, counted.dispatches, unjudged),
        "progress": progress,
        **_columns("held_up", held_up),
        "held_up_by": None if held_up is None or held_up.blocking == NOBODY else context.names.spoken(held_up.blocking),
        **_columns("expected_wait", expected),
        "missing": [*(waits_unseen if progress == "not_provable" else unjudged), *unrecorded(context)],
        "order_held_back": held["order"],
        "progress_held_back": held["progress"],
    }


def _severities(findings: Iterable[RuleFindings]) -> set[Severity]:
    return {severity for of in findings for severity, number in of.counts.items() if number}


def need_a_look(found: ReplayResult, findings: Iterable[RuleFindings]) -> Counter[About]:
    """The number of findings and long waits that need a look, by the question that they concern.

    Findings that only inform, or that are permitted, do not count; neither do waits for an expected cause.
    """
    number: Counter[About] = Counter()
    for of_rule in findings:
        number[RULES[of_rule.rule].about] += sum(of_rule.counts.get(severity, 0) for severity in NEED_A_LOOK)
    # Waits that are findings are already counted.
    number["progress"] += sum(not wait.is_finding for wait in _without_progress(found.reported_waits)[False])
    return number


def answers_from_outside(dispatches: int) -> dict[str, object]:
    """The columns for a subscription that was recorded outside of the broker: such rows prove nothing."""
    return {
        "dispatches": dispatches,
        "dispatches_judged": 0,
        "order_verdict": "not_provable",
        "progress": "not_provable",
        **_columns("held_up", None),
        "held_up_by": None,
        **_columns("expected_wait", None),
        "missing": ["broker"],
        "order_held_back": 0,
        "progress_held_back": 0,
    }


def _unjudged(found: ReplayResult, counted: RowsSeen, refused: int) -> list[Missing]:
    """The rows that the trace lacks, if no dispatch could be judged.

    None are missing if a window ends before the replay has ordered its dispatches: the next window has them.
    """
    unseen, dispatcher = found.unseen, found.dispatcher
    if not counted.dispatches:
        # The trace has acknowledgements, but of no entry that a consumer was sent.
        settled = any(acknowledged for _, acknowledged in dispatcher.counts.values())
        return ["dispatches"] if dispatcher.checked[ACKNOWLEDGEMENTS] and not settled else []
    missing: list[Missing] = ["keys"] if unseen.dispatches_without_key else []
    if unseen.rows_censored or unseen.dispatches_undecided or (refused and not missing):
        missing.append("consumers")
    return [*missing, "publishes"] if missing and not counted.publishes else missing


def _waits_unseen(found: ReplayResult, counted: RowsSeen, unjudged: Sequence[Missing]) -> list[Missing]:
    """The rows whose lack hides which entries waited; `unjudged` are those already known to be missing."""
    missing = list(unjudged)
    if not counted.publishes and found.unseen.entries_without_publish and "publishes" not in missing:
        missing.append("publishes")
    # A stall that began before the first row may leave only snapshots.
    waits = found.dispatcher.monitor.reports.last.waiting > 0 and not (missing or counted.publishes)
    unknown = not found.waits_known and (counted.publishes or counted.dispatches)
    if ends_in_the_middle(found) and not missing:
        missing.append("ending")
    if (waits or unknown) and "consumers" not in missing:
        missing.append("open_entries")
    return missing


def _without_progress(waits: Iterable[Blocked]) -> dict[bool, list[Blocked]]:
    """The intervals without progress for any consumer, by whether their cause is expected."""
    by_kind: dict[bool, list[Blocked]] = {False: [], True: []}
    for interval in waits:
        if interval.scope == "subscription":
            by_kind[is_expected(interval.cause, interval.detail.get("consumers"))].append(interval)
    return by_kind


def _seconds(interval: Blocked) -> float:
    return (interval.span.to_ts - interval.span.from_ts) / 1e6


def _columns(name: str, interval: Blocked | None) -> dict[str, object]:
    return {
        f"{name}_seconds": 0.0 if interval is None else _seconds(interval),
        f"{name}_cause": None if interval is None else interval.cause,
    }
