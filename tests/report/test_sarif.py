"""The SARIF report, held against the standard's schema.

`sarif-2.1.0-rtm.5.json` is the schema as the npm package @microsoft/jest-sarif 1.0.0-beta.0 carries it, unchanged.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from report_rows import BOTH, BROKEN, CLEAN, DUPLICATE, FINDING, HOSTILE, OF_HOSTILES, TABLES, WITH_UNUSABLE, trace_at

from dispatch_audit.pipeline.contract.rules import RULES
from dispatch_audit.pipeline.contract.severity import SEVERITIES
from dispatch_audit.pipeline.report.ci.sarif import sarif_report
from dispatch_audit.pipeline.report.summary import Finding, RunSummary, Summary
from dispatch_audit.pipeline.report.wording import printable
from dispatch_audit.pipeline.trace import open_traces
from dispatch_audit.pipeline.windows.window import Window

SCHEMA = json.loads(Path(__file__).with_name("sarif-2.1.0-rtm.5.json").read_text())


def read(summary: Summary) -> dict[str, Any]:
    traces = [trace_at(Path.cwd() / "traces" / str(at)) for at, _ in enumerate(summary.runs)]
    text = sarif_report(summary, traces, "0.1.0")
    assert text.isascii()
    log: dict[str, Any] = json.loads(text)
    jsonschema.Draft4Validator(SCHEMA).validate(log)
    return log


def results_of(*findings: Finding, run: RunSummary = BROKEN) -> list[dict[str, Any]]:
    log = read(Summary("/tmp/report", TABLES, (replace(run, findings=findings),)))
    results: list[dict[str, Any]] = log["runs"][0]["results"]
    return results


def print_of(result: dict[str, Any]) -> str:
    fingerprint: str = result["partialFingerprints"]["primaryLocationLineHash"]
    return fingerprint


def test_a_run_is_a_trace_and_knows_its_rules() -> None:
    night, day = read(BOTH)["runs"]
    assert night["automationDetails"]["id"] != day["automationDetails"]["id"]
    assert (night["properties"]["run_key"], day["properties"]["verdict"]) == ("0123456789abcdef", "clean")
    rules = night["tool"]["driver"]["rules"]
    (holder,) = [rule for rule in rules if rule["id"] == "single_holder"]
    assert holder["shortDescription"]["text"] == RULES["single_holder"].statement
    assert "- E5: consumers that allow out-of-order delivery" in holder["help"]["text"]
    assert "#26471" in holder["help"]["text"]
    assert day["results"] == []


def test_windows_of_one_trace_are_runs_of_their_own_categories() -> None:
    """GitHub refuses a file with two runs of one category."""
    windows = [Window(None, 2_000_000), Window(2_000_000, None)]
    runs = tuple(replace(CLEAN, starts_from="beginning", window=window) for window in windows)
    ids = [run["automationDetails"]["id"] for run in read(Summary("/tmp/report", TABLES, runs))["runs"]]
    assert ids == [
        "dispatch-audit/traces/day/the beginning of the log to 1970-01-01T00:00:02Z/",
        "dispatch-audit/traces/day/1970-01-01T00:00:02Z to its end/",
    ]


def test_rules_name_only_the_bugs_that_this_broker_can_have() -> None:
    (run,) = read(Summary("/tmp/report", TABLES, (replace(BROKEN, pulsar_version="5.0.1"),)))["runs"]
    (holder,) = [rule for rule in run["tool"]["driver"]["rules"] if rule["id"] == "single_holder"]
    assert "#26471" not in holder["help"]["text"]


def test_a_result_says_what_how_bad_and_where() -> None:
    (result,) = results_of(FINDING)
    assert (result["ruleId"], result["level"]) == ("single_holder", "error")
    assert result["message"]["text"].startswith(FINDING.explanation)
    assert result["message"]["text"].endswith("dispatch-audit explain /tmp/report --violation 3f2a9c04d1b7")
    (location,) = result["locations"]
    assert location["physicalLocation"] == {"artifactLocation": {"uri": "traces/0/events.jsonl"}}
    assert location["logicalLocations"][0]["fullyQualifiedName"] == f"{FINDING.topic}, {FINDING.subscription}"
    reported = result["properties"]
    assert (reported["seq"], reported["evidence"]) == (20, list(FINDING.evidence))
    assert (reported["what"], reported["against"]) == (FINDING.what, FINDING.against)
    assert (reported["why"], reported["remedy"]) == ([], None)


def test_the_index_of_a_rule_is_its_place_among_the_rules() -> None:
    (run,) = read(Summary("/tmp/report", TABLES, (BROKEN,)))["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [rules[result["ruleIndex"]] for result in run["results"]] == ["single_holder", "early_duplicate"]


def test_levels_follow_severities() -> None:
    results = results_of(*(replace(FINDING, severity=severity) for severity in reversed(SEVERITIES)))
    assert [result["level"] for result in results] == ["error", "error", "warning", "note", "note"]


def test_the_fingerprint_of_a_finding_outlives_how_it_is_judged_and_worded() -> None:
    (before,) = results_of(FINDING)
    (after,) = results_of(replace(FINDING, severity="known_bug", known_bug="F2", explanation="in other words"))
    assert print_of(before) == print_of(after)


def test_fingerprints_keep_findings_and_traces_apart() -> None:
    here, another = results_of(FINDING, replace(FINDING, finding_id="1"))
    (elsewhere,) = results_of(FINDING, run=replace(BROKEN, inputs=("traces/other",)))
    assert len({print_of(here), print_of(another), print_of(elsewhere)}) == 3


def test_a_line_that_is_known_is_the_region(write_trace: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_trace(["", {"event": "dispatch", "topic": FINDING.topic, "seq": FINDING.seq}])
    monkeypatch.chdir(folder)
    text = sarif_report(Summary("out", TABLES, (replace(BROKEN, findings=(FINDING,)),)), open_traces(["."]), "0.1.0")
    log = json.loads(text)
    jsonschema.Draft4Validator(SCHEMA).validate(log)
    (location,) = log["runs"][0]["results"][0]["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "events.jsonl"},
        "region": {"startLine": 2},
    }


def test_names_of_clients_break_nothing() -> None:
    (run,) = read(OF_HOSTILES)["runs"]
    (result,) = run["results"]
    text = result["message"]["text"]
    assert not set(text) & set("\n\r\x00\x1b\u202e")
    # Neither a placeholder nor a link is left, and undoing the escapes gives the name back.
    plain = text.replace("\\[", "[").replace("\\]", "]").replace("{{", "{").replace("}}", "}")
    assert printable(HOSTILE) in plain
    assert "\\[link\\](http" in text
    assert " {{0}} {{{{1}}}} " in text


def test_a_clean_trace_and_an_unknown_version_are_fine() -> None:
    assert read(Summary("/tmp/report", TABLES, (CLEAN,)))["runs"][0]["results"] == []
    assert results_of(DUPLICATE, run=replace(BROKEN, pulsar_version="nightly"))[0]["properties"]["known_bug"] == "F10"


def test_traces_that_could_not_be_audited_are_notifications_of_the_tool() -> None:
    *_, run = read(WITH_UNUSABLE)["runs"]
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"], run["results"]) == (False, 3, [])
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["level"] == "error"
    assert notification["message"]["text"] == "traces/torn is empty; record it again"
    assert notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "traces/torn"
    assert len(read(BOTH)["runs"]) == 2


def test_an_accepted_finding_is_suppressed_and_keeps_its_fingerprint() -> None:
    new, accepted = results_of(FINDING, replace(FINDING, accepted=True))
    assert accepted["suppressions"] == [{"kind": "external", "status": "accepted"}]
    assert "suppressions" not in new
    assert print_of(new) == print_of(accepted)
