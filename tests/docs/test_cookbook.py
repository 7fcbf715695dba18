"""Every query of docs/COOKBOOK.md runs, and its first row is what the recording is known to have."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cookbook_queries import ALL_RUNS, COOKBOOK, Rows, answers, queries
from pyspark.sql import SparkSession
from traces_of_docs import BAD, HEAVY, HUNG, JOIN_LEAVE, MIXED, NAMES, UNBLOCKED

# By question: the trace to ask about, and some columns of the first row of each query.
EXPECTED: dict[str, tuple[str, Rows]] = {
    ALL_RUNS: (HEAVY, [{}]),
    "Q1": (HEAVY, [{"key": "key-7", "entry": "1:1196", "held_entry": "1:937", "consumer": 12, "other_consumer": 4}]),
    "Q2": (UNBLOCKED, [{"rule": "first_delivery_order", "known_bug": "#23870", "findings": 19}]),
    "Q3": (HEAVY, [{"receiver": "flap104", "holder": "c2", "was_draining": False, "draining_from": None}]),
    "Q4": (UNBLOCKED, [{"entry": "1:1135", "overtaken_entry": "1:902", "key": "key-98"}]),
    "Q5": (JOIN_LEAVE, [{"entry": "1:851", "key": "key-184", "known_bug": "F10"}]),
    "Q6": (HUNG, [{"subscription": "ks"}]),
    "Q7": (HEAVY, [{"rule": "single_holder"}]),
    "Q8": (HUNG, [{"cause": "no_permits", "blocking_consumer_name": "c7", "hashes": 50, "message_seconds": 3275.742}]),
    "Q9": (UNBLOCKED, [{"cause": "draining", "blocking_consumer_name": "c0", "entry": "1:281"}]),
    "Q10": (HUNG, [{"cause": "look_ahead_limit", "scope": "subscription", "message_seconds": 14670.664}]),
    "Q11": (HUNG, [{"cause": "look_ahead_limit"}]),
    "Q12": (
        HUNG,
        [
            {"connected": 10, "with_permits": 9, "seconds": 7.299528, "blocking_consumer_name": "c7"},
            {
                "order_verdict": "kept",
                "progress": "held_up",
                "held_up_seconds": 7.299528,
                "held_up_by": "c7 (consumer 28)",
            },
        ],
    ),
    "Q13": (UNBLOCKED, [{"waiting": "c14", "waits_for": "c10", "which_waits_for": "c0", "cause": "draining"}]),
    "Q14": (HUNG, [{"consumer_name": "c7", "message_seconds": 3275.742}, {"key": "key-314", "sticky_hash": 4744}]),
    "Q15": (HUNG, [{"consumer_name": "c7", "range_start": 4646, "range_end": 4913}]),
    "Q16": (JOIN_LEAVE, [{"change": "join c0", "hashes_moved": 65535, "hashes_drained": 0}]),
    "Q17": (JOIN_LEAVE, [{"consumer_name": "c0"}]),
    "Q18": (JOIN_LEAVE, [{"key": "key-0", "dispatched": 310}]),
    "Q19": (NAMES, [{"consumer_name": "same", "connections": 14, "at_one_time": 7}]),
    "Q20": (HUNG, [{"look_ahead_limit": 200, "least_headroom": -10}]),
    "Q21": (HUNG, [{"largest_replay_queue": 210, "most_ack_holes": 191, "exceeded": False}]),
    "Q26": (BAD, [{"subscription": "ks"}]),
    "Q27": (BAD, [{"reason": "broken_json", "number_of_rows": 2}]),
    "Q28": (HEAVY, [{"rule": "single_holder", "before": 0, "after": 13}]),
    "Q29": (MIXED, [{"producer_name": "p-mb_mixed_batch", "mixed_batches": 1342}]),
}
PARAMETERS_OF_DELTA = "spark.sql.legacy.parameterSubstitution.constantsOnly"

pytestmark = pytest.mark.xdist_group("docs")


@pytest.fixture(scope="module")
def target(audited_traces: Path) -> Path:
    return audited_traces / "tables"


@pytest.fixture(scope="module")
def parameters(audited_traces: Path) -> dict[str, dict[str, str | int]]:
    report = json.loads((audited_traces / "report.json").read_text())
    keys = {Path(trace["inputs"][0]).name: trace["run_key"] for trace in report["traces"]}
    asked = {"earlier_run_key": keys[HUNG], "sticky_hash": 4744, "at": "2026-11-21 01:28:30"}
    return {number: {"run_key": keys[trace], **asked} for number, (trace, _) in EXPECTED.items()}


def differing(found: dict[str, list[Rows]]) -> dict[str, Rows]:
    """The first rows that are not as expected, as they are."""
    wrong = {}
    for number, (_, expected) in EXPECTED.items():
        first = [rows[0] if rows else {} for rows in found[number]]
        parts = [
            {name: row.get(name, "absent") for name in wanted} for row, wanted in zip(first, expected, strict=True)
        ]
        if parts != expected or not all(first):
            wrong[number] = first
    return wrong


def test_the_page_names_the_setting_without_which_delta_loses_parameters() -> None:
    assert f'spark.conf.set("{PARAMETERS_OF_DELTA}", "true")' in COOKBOOK.read_text()


def test_there_is_an_expectation_for_every_query() -> None:
    assert {number: len(of_it) for number, of_it in queries().items()} == {
        number: len(rows) for number, (_, rows) in EXPECTED.items()
    }


@pytest.mark.e2e
def test_queries_run_on_the_embedded_engine(target: Path, parameters: dict[str, dict[str, str | int]]) -> None:
    command = [sys.executable, str(Path(__file__).with_name("cookbook_queries.py")), str(target)]
    done = subprocess.run(
        command, input=json.dumps(parameters), capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert differing(json.loads(done.stdout)) == {}


# The embedded engine has the syntax of Spark and functions of its own: seconds more for what seldom differs.
@pytest.mark.slow
@pytest.mark.spark
def test_queries_run_on_apache_spark(
    spark: SparkSession, target: Path, parameters: dict[str, dict[str, str | int]]
) -> None:
    # As the page says: Delta's parser loses parameters otherwise.
    spark.conf.set(PARAMETERS_OF_DELTA, "true")
    try:
        assert differing(answers(spark, target, parameters)) == {}
    finally:
        spark.conf.unset(PARAMETERS_OF_DELTA)
