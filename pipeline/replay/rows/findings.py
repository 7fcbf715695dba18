"""Rows of `violations` and `metrics`: findings with the events that prove them, in words."""

import json
from typing import Any

import numpy as np

from pipeline.replay.output import RULE_NAMES
from pipeline.replay.rows.names import Names, Rows, moment, or_none, position
from pipeline.replay.state import DISPATCHES, FIRST_DELIVERIES, UNKNOWN
from pipeline.replay.subscription import Replayed

# What an out-of-order subscription never promised (SEMANTICS 9.3, E5); ownership of a hash it does promise.
_OUT_OF_ORDER = {"single_holder": "E5", "first_delivery_order": "E5"}

_CHECKED = {
    "single_holder": DISPATCHES,
    "ownership": DISPATCHES,
    "first_delivery_order": FIRST_DELIVERIES,
    "early_duplicate": DISPATCHES,
}


def violations(topic: str, subscription: str, found: Replayed, per_rule_max: int) -> Rows:
    """Findings, at most `per_rule_max` of each rule: the first ones, of which later ones often are consequences."""
    names = Names(found.numbers, found.stays)
    rows: Rows = []
    for rule, rule_name in enumerate(RULE_NAMES):
        of_rule = found.findings[found.findings.rule == rule]
        permitted_by = None if found.keeps_order else _OUT_OF_ORDER.get(rule_name)
        for finding in of_rule[np.argsort(of_rule.seq, kind="stable")[:per_rule_max]]:
            # An epoch begins behind the row of its seq.
            epoch = max(int(np.searchsorted(found.epoch_seqs, finding.seq)) - 1, 0)
            rows.append(
                {
                    "rule": rule_name,
                    "severity": "violation" if permitted_by is None else "permitted",
                    "topic": topic,
                    "subscription": subscription,
                    "sticky_hash": int(finding.hash),
                    "key_id": int(finding.key_id),
                    "ledger_id": int(finding.ledger),
                    "entry_id": int(finding.entry),
                    "consumer": names.number(finding.consumer),
                    "consumer_name": names.name(finding.consumer),
                    "other_consumer": names.number(finding.other_consumer),
                    "other_consumer_name": names.name(finding.other_consumer),
                    "epoch": epoch,
                    "seq": int(finding.seq),
                    "ts_us": int(finding.ts_us),
                    "permitted_by": permitted_by,
                    "detail": _detail(finding),
                    "evidence": _evidence(finding, names),
                    "explanation": _explanation(rule_name, finding, names, epoch),
                }
            )
    return rows


def metrics(topic: str, subscription: str, found: Replayed) -> Rows:
    """A row for each rule, also where it found nothing."""
    rows: Rows = []
    for rule, name in enumerate(RULE_NAMES):
        count = int(np.count_nonzero(found.findings.rule == rule))
        permitted = not found.keeps_order and name in _OUT_OF_ORDER
        rows.append(
            {
                "topic": topic,
                "subscription": subscription,
                "rule": name,
                "checked": int(found.checked[_CHECKED[name]]),
                "violations": 0 if permitted else count,
                "permitted": count if permitted else 0,
                "known_bug": 0,
                "not_provable": 0,
                "info": 0,
            }
        )
    return rows


def _detail(finding: Any) -> str:
    """What a program may want to know of the other side."""
    detail: dict[str, object] = {"draining": bool(finding.draining)}
    if finding.other_seq != UNKNOWN:
        detail["other_position"] = position(finding.other_ledger, finding.other_entry)
        detail["other_seq"] = or_none(finding.other_seq)
        detail["same_key"] = bool(finding.key_id == finding.other_key_id)
    return json.dumps(detail)


def _evidence(finding: Any, names: Names) -> list[str]:
    """The dispatches that prove it, oldest first."""
    rows = []
    if finding.other_seq != UNKNOWN:
        other = position(finding.other_ledger, finding.other_entry)
        rows.append(f"seq {finding.other_seq}: {other} dispatched to {names.spoken(finding.other_consumer)}")
    entry = position(finding.ledger, finding.entry)
    return [*rows, f"seq {finding.seq}: {entry} dispatched to {names.spoken(finding.consumer)}"]


def _explanation(rule: str, finding: Any, names: Names, epoch: int) -> str:
    other = names.spoken(finding.other_consumer)
    other_entry = position(finding.other_ledger, finding.other_entry)
    sent = (
        f"entry {position(finding.ledger, finding.entry)} of hash {finding.hash} went to "
        f"{names.spoken(finding.consumer)} at {moment(finding.ts_us)} (seq {finding.seq})"
    )
    since = f"sent at seq {finding.other_seq} and neither acknowledged nor given back since"
    if rule == "ownership":
        return f"{sent}, but in epoch {epoch} the hash is routed to {other}"
    if rule == "first_delivery_order":
        return (
            f"{sent} for the first time, after the later entry {other_entry} had gone to {other} "
            f"(seq {finding.other_seq})"
        )
    if rule == "early_duplicate":
        if finding.acknowledged:
            return f"{sent} once more, although it was acknowledged"
        return f"{sent} once more, although {other} still held it, {since}"
    draining = "the hash was draining: " if finding.draining else ""
    return f"{sent}; however {draining}{other} still held {other_entry}, {since}"
