import json
import shlex
from dataclasses import replace

from report_rows import BOTH, BROKEN, CLEAN, FINDING, HELD_UP, KEYLESS, TABLES, WITH_UNUSABLE

from dispatch_audit.pipeline.report.json_summary import json_summary
from dispatch_audit.pipeline.windows.window import Window


def test_totals_over_all_traces() -> None:
    report = json.loads(json_summary(BOTH))
    assert (report["verdict"], report["events"], report["quarantined"]) == ("violation", 15_000, 12)
    assert report["completeness"] == (0.999 * 12_000 + 3_000) / 15_000
    assert report["rules"]["single_holder"] == {
        "checked": 3_700,
        "violation": 13,
        "permitted": 2,
        "known_bug": 0,
        "not_provable": 0,
        "info": 0,
        "accepted": 0,
    }
    assert report["rules"]["early_duplicate"]["known_bug"] == 1
    assert report["blocking"] == {
        "draining": {"intervals": 115, "message_seconds": 1251.25},
        "no_permits": {"intervals": 1, "message_seconds": 0.25},
    }
    assert report["tables"] == TABLES


def test_order_and_progress_are_said_beside_the_verdict() -> None:
    runs = (replace(HELD_UP, keyless_producers=(KEYLESS,)), BROKEN)
    report = json.loads(json_summary(replace(BOTH, runs=runs)))
    assert (report["verdict"], report["order"], report["progress"], report["held_up_seconds"]) == (
        "violation",
        "broken",
        "held_up",
        7.3,
    )
    held_up, broken = report["traces"]
    assert (held_up["order"], held_up["progress"], held_up["verdict"]) == ("kept", "held_up", "clean")
    assert (broken["order"], broken["progress"], broken["held_up_seconds"]) == ("broken", "flowing", 0.0)
    (subscription,) = held_up["subscriptions"]
    assert (subscription["order"], subscription["held_up_by"], subscription["held_up_cause"]) == (
        "kept",
        "red (consumer 1)",
        "draining",
    )
    (keyless,) = held_up["keyless_producers"]
    assert (keyless["keyless_entries"], keyless["said"]) == (10, "shop-2: 10 of 40 entries without a key (25 %)")


def test_each_trace_by_itself() -> None:
    broken, clean = json.loads(json_summary(BOTH))["traces"]
    assert (broken["run_key"], broken["inputs"], broken["verdict"]) == (
        "0123456789abcdef",
        ["traces/night"],
        "violation",
    )
    assert [trace["intervals_left_out"] for trace in (broken, clean)] == [0, 0]
    assert broken["quarantined_by_reason"] == {"broken_json": 10, "missing_field": 2}
    assert (clean["verdict"], clean["quarantined"], clean["rules"]["single_holder"]["checked"]) == ("clean", 0, 700)


def test_each_finding_says_the_command_that_shows_its_events() -> None:
    broken, clean = json.loads(json_summary(replace(BOTH, target="/tmp/it's here")))["traces"]
    (holder, duplicate), nothing = broken["findings"], clean["findings"]
    assert (holder["rule"], holder["evidence"]) == ("single_holder", list(FINDING.evidence))
    words = shlex.split(holder["explain"])
    assert words == ["dispatch-audit", "explain", "/tmp/it's here", "--violation", FINDING.finding_id]
    assert duplicate["finding_id"] != holder["finding_id"]
    assert nothing == []


def test_a_finding_of_an_older_version_has_no_id_and_no_command() -> None:
    run = replace(BROKEN, findings=(replace(FINDING, finding_id=None),))
    ((finding,),) = (trace["findings"] for trace in json.loads(json_summary(replace(BOTH, runs=(run,))))["traces"])
    assert (finding["finding_id"], finding["explain"]) == (None, None)


def test_each_trace_says_what_it_rests_on_and_what_was_hot() -> None:
    broken, clean = json.loads(json_summary(BOTH))["traces"]
    assert [row["rows_censored"] for row in broken["incomplete"]] == [2_988]
    assert [(row["key"], row["dispatched"], row["keys_on_hash"]) for row in broken["hot_keys"]] == [
        ("order-7", 1_980, 2),
        (None, 9, 1),
    ]
    assert [(row["producer_name"], row["mixed_batches"]) for row in broken["mixed_producers"]] == [("shop-1", 4)]
    assert (clean["incomplete"], clean["hot_keys"], clean["mixed_producers"]) == ([], [], [])


def test_a_window_says_which_one_it_is_and_one_without_rows_missed_nothing() -> None:
    empty = replace(CLEAN, events_in=0, starts_from="state", window=Window(1, 2))
    report = json.loads(json_summary(replace(BOTH, runs=(empty,))))
    (run,) = report["traces"]
    assert (run["starts_from"], run["window_from_us"], run["window_to_us"]) == ("state", 1, 2)
    assert report["completeness"] == run["completeness"] == 1.0
    assert {json.loads(json_summary(BOTH))["traces"][0][name] for name in ("window_from_us", "window_to_us")} == {None}


def test_it_is_ascii_on_any_terminal() -> None:
    assert json_summary(BOTH).isascii()


def test_traces_that_could_not_be_audited_are_listed() -> None:
    report = json.loads(json_summary(WITH_UNUSABLE))
    assert report["unusable"] == [{"path": "traces/torn", "reason": "traces/torn is empty; record it again"}]
    assert [trace["inputs"] for trace in report["traces"]] == [["traces/day"]]
