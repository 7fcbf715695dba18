from typing import Any

import pytest
from pyspark.sql import SparkSession
from ways import Way, held

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.report.query import summarise
from dispatch_audit.pipeline.report.summary import CauseTotals, Summary
from dispatch_audit.pipeline.tables.schemas import TABLES

GROUPS = ({"topic": "orders-0", "subscription": "workers"}, {"topic": "orders-1", "subscription": "workers"})


def metric(group: dict[str, str], rule: str, **found: int) -> dict[str, Any]:
    zeros = dict.fromkeys(("violations", "permitted", "known_bug", "not_provable", "info"), 0)
    return {**group, "rule": rule, "checked": 100, **zeros, **found}


def finding(rule: str, seq: int, severity: str, **more: Any) -> dict[str, Any]:
    told = {"ts_us": seq * 1000, "evidence": [f"seq {seq}"], "explanation": f"{rule} at {seq}"}
    return {**GROUPS[0], "rule": rule, "severity": severity, "seq": seq, **told, **more}


def interval(cause: str, from_ts_us: int, to_ts_us: int | None, message_seconds: float) -> dict[str, Any]:
    times = {"from_seq": 1, "to_seq": None if to_ts_us is None else 2, "from_ts_us": from_ts_us, "to_ts_us": to_ts_us}
    rest = {"entries_waiting": 1, "message_seconds": message_seconds, "root_positions": ["7:1"]}
    return {**GROUPS[0], "scope": "hash", "cause": cause, **times, **rest}


def partition(group: dict[str, str], left_out: int) -> dict[str, Any]:
    names = (column.name for column in TABLES["coverage"].columns if column.name not in ("run_key", *group))
    return {**group, **dict.fromkeys(names, 0), "completeness": 1.0, "intervals_left_out": left_out}


def run(verdict: str, quarantined: int) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "completeness": 1.0,
        "events_in": 100,
        "events_audited": 100 - quarantined,
        "events_quarantined": quarantined,
        "profile": "pulsar-4.2",
        "inputs": ["night"],
        "settings": "{}",
        "code_version": "0",
        "engine": "Sail 0.7.2",
        "from_ts_us": 0,
        "to_ts_us": 9_000_000,
        "started_at_us": 0,
        "ended_at_us": 0,
        "stages": [],
    }


@pytest.fixture(scope="module")
def summary(way: Way, tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """Two runs in a target that holds a third, all written as an audit writes them."""
    folder = tmp_path_factory.mktemp("audit")
    broken = {
        "metrics": [
            metric(GROUPS[0], "single_holder", violations=7, permitted=1),
            metric(GROUPS[1], "single_holder", violations=2),
            metric(GROUPS[0], "early_duplicate", known_bug=1),
            metric(GROUPS[0], "ownership", info=301),
        ],
        "violations": [
            *(finding("ownership", seq, "info") for seq in range(301)),
            finding("single_holder", 1, "permitted", permitted_by="E5"),
            *(finding("single_holder", seq, "violation", key="k") for seq in range(2, 9)),
            finding("early_duplicate", 3, "known_bug", known_bug="F10"),
        ],
        "blocking": [
            interval("draining", 0, 1_000_000, 1.0),
            interval("draining", 0, 2_500_000, 4.0),
            interval("no_permits", 3_000_000, None, 6.0),
        ],
        "coverage": [partition(GROUPS[0], 3), partition(GROUPS[1], 4)],
        "quarantine": [
            *({"reason": "broken_json", "file": "f", "line": line} for line in (1, 2)),
            {"reason": "missing_field", "file": "f", "line": 3},
        ],
    }
    clean = {"metrics": [metric(GROUPS[0], "ownership")]}
    runs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "aaaa": (broken, run("violation", 3)),
        "bbbb": (clean, run("clean", 0)),
        "cccc": (broken, run("violation", 3)),
    }
    for run_key, (rows_of, row) in runs.items():
        tables = way.opened(folder, run_key)
        tables.write(held(rows_of))
        tables.finish(row)
    return summarise(way.spark, way.named(folder), ["bbbb", "aaaa"])


def test_runs_come_in_the_order_asked_for_and_no_other(summary: Summary) -> None:
    assert [(run.run_key, run.verdict) for run in summary.runs] == [("bbbb", "clean"), ("aaaa", "violation")]


def test_counts_are_totals_over_subscriptions(summary: Summary) -> None:
    counts = {counts.rule: counts for counts in summary.runs[1].rules}
    assert list(counts) == ["early_duplicate", "ownership", "single_holder"]
    holder = counts["single_holder"]
    assert (holder.checked, holder.findings["violation"], holder.findings["permitted"]) == (200, 9, 1)
    assert summary.runs[1].severities == {"violation", "permitted", "known_bug", "info"}
    assert not summary.runs[0].severities


def test_counts_of_each_subscription(summary: Summary) -> None:
    told = [(group.topic, group.rule, group.findings["violation"]) for group in summary.runs[1].groups]
    assert told == [
        ("orders-0", "early_duplicate", 0),
        ("orders-0", "ownership", 0),
        ("orders-0", "single_holder", 7),
        ("orders-1", "single_holder", 2),
    ]


def test_the_worst_findings_of_a_rule_are_shown_the_worst_rule_first(summary: Summary) -> None:
    shown = [(finding.rule, finding.severity, finding.seq) for finding in summary.runs[1].findings]
    assert shown == [
        *(("single_holder", "violation", seq) for seq in range(2, 9)),
        ("single_holder", "permitted", 1),
        ("early_duplicate", "known_bug", 3),
        # Of the 301 that there are.
        *(("ownership", "info", seq) for seq in range(300)),
    ]
    assert summary.runs[1].findings[0].evidence == ("seq 2",)


def test_causes_and_waits_begin_with_the_costliest(summary: Summary) -> None:
    run = summary.runs[1]
    assert run.causes == (CauseTotals("no_permits", 1, 6.0), CauseTotals("draining", 2, 5.0))
    # The first is still open: it is as long as the trace.
    assert [(wait.cause, wait.seconds) for wait in run.waits] == [
        ("no_permits", 6.0),
        ("draining", 2.5),
        ("draining", 1.0),
    ]


def test_intervals_that_were_left_out_are_added_up(summary: Summary) -> None:
    assert [run.intervals_left_out for run in summary.runs] == [0, 7]


def test_refused_rows_are_counted_by_reason(summary: Summary) -> None:
    assert list(summary.runs[1].refused.items()) == [("broken_json", 2), ("missing_field", 1)]


@pytest.mark.spark
def test_tables_can_be_opened_by_what_the_summary_says(spark: SparkSession, summary: Summary) -> None:
    assert spark.read.format("delta").load(summary.tables["runs"]).count() == 3


def test_a_run_that_did_not_happen_is_a_usage_error(way: Way, summary: Summary) -> None:
    with pytest.raises(UsageError, match="has no run dddd"):
        summarise(way.spark, summary.tables["runs"].removesuffix("/runs"), ["aaaa", "dddd"])
