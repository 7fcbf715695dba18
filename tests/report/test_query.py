from typing import Any

import pytest
from pyspark.sql import SparkSession
from ways import Way, by_path, held

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.report.query import finding_in, summarise
from dispatch_audit.pipeline.report.summary import CauseTotals, Summary
from dispatch_audit.pipeline.tables.schemas import TABLES

GROUPS = ({"topic": "orders-0", "subscription": "workers"}, {"topic": "orders-1", "subscription": "workers"})


def metric(group: dict[str, str], rule: str, **found: int) -> dict[str, Any]:
    zeros = dict.fromkeys(("violations", "permitted", "known_bug", "not_provable", "info"), 0)
    return {**group, "rule": rule, "checked": 100, **zeros, **found}


def finding(rule: str, seq: int, severity: str, **more: Any) -> dict[str, Any]:
    reported = {"ts_us": seq * 1000, "evidence": [f"seq {seq}"], "explanation": f"{rule} at {seq}"}
    return {**GROUPS[0], "rule": rule, "severity": severity, "seq": seq, **reported, **more}


def interval(
    cause: str,
    from_ts_us: int,
    to_ts_us: int | None,
    message_seconds: float,
    scope: str = "hash",
    blocking: int | None = 1,
) -> dict[str, Any]:
    times = {"from_seq": 1, "to_seq": None if to_ts_us is None else 2, "from_ts_us": from_ts_us, "to_ts_us": to_ts_us}
    rest = {"entries_waiting": 1, "message_seconds": message_seconds, "root_positions": ["7:1"]}
    blamed = {"blocking_consumer": blocking, "blocking_consumer_name": None if blocking is None else f"c{blocking}"}
    waiting = {"consumer": 7, "consumer_name": "c7", "explanation": f"{cause} waited"}
    return {**GROUPS[0], "scope": scope, "cause": cause, **waiting, **blamed, **times, **rest}


_TEXTS: dict[str, Any] = {
    "order_verdict": "kept",
    "progress": "held_up",
    "held_up_cause": "no_permits",
    "held_up_by": "c7 (consumer 7)",
    "expected_wait_cause": None,
    "missing": ["keys"],
}


def partition(group: dict[str, str], left_out: int) -> dict[str, Any]:
    recorded = (column.name for column in TABLES["coverage"].columns if column.derived_from is None)
    names = (name for name in recorded if name not in ("run_key", *group))
    numbers = {name: 0 for name in names if name not in _TEXTS}
    return {**group, **numbers, **_TEXTS, "completeness": 1.0, "intervals_left_out": left_out}


def run(verdict: str, quarantined: int) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "completeness": 1.0,
        "events_in": 100,
        "events_audited": 100 - quarantined,
        "events_quarantined": quarantined,
        "profile": "pulsar-4.2.4",
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
    """Two runs in a target that holds a third, all written as an audit writes them; read in either way."""
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
            interval("draining", 0, 500_000, 4.5, blocking=2),
            interval("no_permits", 3_000_000, None, 2.5),
            interval("no_permits", 4_000_000, None, 3.5),
            interval("unacked_limit_consumer", 0, 400_000, 0.5, blocking=None),
            interval("look_ahead_limit", 0, 300_000, 0.25, blocking=None),
            # The same waiting as seen by the consumer, and a part of it as seen by the subscription.
            interval("no_permits", 3_000_000, None, 6.0, scope="consumer"),
            interval("no_permits", 3_000_000, None, 5.0, scope="subscription"),
        ],
        "coverage": [partition(GROUPS[0], 3), partition(GROUPS[1], 4)],
        "quarantine": [
            *({"reason": "broken_json", "file": "f", "line": line} for line in (1, 2)),
            {"reason": "missing_field", "file": "f", "line": 3},
        ],
    }
    clean = {"metrics": [metric(GROUPS[0], "ownership")]}
    accepting = {
        "metrics": [metric(GROUPS[0], "ownership", violations=310, not_provable=1), metric(GROUPS[0], "single_holder")],
        "violations": [
            *(finding("ownership", seq, "violation", accepted=True) for seq in range(310)),
            finding("ownership", 310, "not_provable", accepted=False),
        ],
    }
    runs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "aaaa": (broken, run("violation", 3)),
        "bbbb": (clean, run("clean", 0)),
        "cccc": (accepting, {**run("violation", 0), "findings_accepted": 310}),
    }
    for run_key, (rows_of, row) in runs.items():
        # By delta-rs: through Spark it takes half a minute and gives the same (tests/tables/test_both_ways.py).
        tables = Way(None, by_path).opened(folder, run_key)
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
    severities = [{s for of in run.rules for s, found in of.findings.items() if found} for run in summary.runs]
    assert severities == [set(), {"violation", "permitted", "known_bug", "info"}]


def test_counts_of_each_subscription(summary: Summary) -> None:
    reported = [(group.topic, group.rule, group.findings["violation"]) for group in summary.runs[1].groups]
    assert reported == [
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
        # Of the 301 that there are, as many as 25 rules leave room for among 5,000 results.
        *(("ownership", "info", seq) for seq in range(200)),
    ]
    assert summary.runs[1].findings[0].evidence == ("seq 2",)


def test_accepted_findings_are_counted_and_take_no_place_of_others(way: Way, summary: Summary) -> None:
    (accepting,) = summarise(way.spark, summary.target, ["cccc"]).runs
    ownership, holder = accepting.rules
    assert (ownership.accepted, holder.accepted, accepting.accepted) == ({"violation": 310}, {}, 310)
    assert [group.accepted for group in accepting.groups] == [{"violation": 310}, {}]
    assert [(finding.severity, finding.accepted) for finding in accepting.findings[:2]] == [
        ("not_provable", False),
        ("violation", True),
    ]
    assert [run.accepted for run in summary.runs] == [0, 0]


def test_causes_begin_with_the_costliest_and_count_the_widest_scope_of_equal_ones(summary: Summary) -> None:
    assert summary.runs[1].causes == (
        CauseTotals("draining", 3, 9.5),
        CauseTotals("no_permits", 1, 6.0),
        CauseTotals("unacked_limit_consumer", 1, 0.5),
        CauseTotals("look_ahead_limit", 1, 0.25),
    )


def test_blocks_are_added_up_by_the_consumer_to_blame(summary: Summary) -> None:
    blocks = summary.runs[1].blocks
    assert [(b.cause, b.consumer, b.intervals, b.message_seconds, b.longest_s) for b in blocks] == [
        # The first is still open: it is as long as the trace.
        ("no_permits", 1, 1, 6.0, 6.0),
        ("draining", 1, 2, 5.0, 2.5),
        ("draining", 2, 1, 4.5, 0.5),
        # At its own limit, and at one of the subscription.
        ("unacked_limit_consumer", 7, 1, 0.5, 0.4),
        ("look_ahead_limit", None, 1, 0.25, 0.3),
    ]
    worst = blocks[1].worst
    assert (worst.explanation, worst.seconds, worst.root_positions) == ("draining waited", 2.5, ("7:1",))
    assert blocks[0].worst.ended_by is None


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


def test_a_finding_is_read_with_its_parts_and_one_of_an_older_version_with_its_sentence() -> None:
    row = dict.fromkeys(column.name for column in TABLES["violations"].columns) | finding("ownership", 7, "violation")
    older = finding_in(row)
    assert (older.what, older.against, older.why, older.remedy) == ("ownership at 7", None, (), None)
    parts = {"what": "it went to c1", "against": "c2 owns it", "why": ["a", "b"], "remedy": "Upgrade."}
    assert finding_in({**row, **parts}).parts == {
        "what": ("it went to c1",),
        "against": ("c2 owns it",),
        "why": ("a", "b"),
        "remedy": ("Upgrade.",),
    }
