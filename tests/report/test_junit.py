"""The JUnit report, read as CI systems read it."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from report_rows import (
    BOTH,
    BROKEN,
    CLEAN,
    FINDING,
    HELD_UP,
    HOSTILE,
    OF_HOSTILES,
    TABLES,
    UNPROVEN,
    WITH_UNUSABLE,
    counts,
    group,
)

from dispatch_audit.pipeline.contract.fail_on import parse_fail_on
from dispatch_audit.pipeline.report.ci.junit import junit_report
from dispatch_audit.pipeline.report.summary import Finding, GroupCounts, RunSummary, Summary
from dispatch_audit.pipeline.report.wording import printable
from dispatch_audit.pipeline.windows.window import Window

# Elements with what may stand in them, as Jenkins's, GitLab's and Ant's schemas have in common.
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "properties": {"property"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}
ATTRIBUTES = {
    "testsuites": {"name", "tests", "failures", "errors", "skipped", "time"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time"},
    "property": {"name", "value"},
    "testcase": {"name", "classname"},
    "failure": {"message", "type"},
    "error": {"message", "type"},
    "skipped": {"message"},
}


def read(summary: Summary, fail_on: str = "violation") -> ET.Element:
    report = ET.fromstring(junit_report(summary, parse_fail_on([fail_on])))
    for element in report.iter():
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
        assert element.attrib.keys() == ATTRIBUTES.get(element.tag, set())
    for suite in (report, *report.iter("testsuite")):
        cases = list(suite.iter("testcase"))
        reported = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
        by_tag = {f"{tag}s": sum(case.find(tag) is not None for case in cases) for tag in ("failure", "error")}
        skipped = sum(case.find("skipped") is not None for case in cases)
        assert reported == {"tests": len(cases), **by_tag, "skipped": skipped}
        assert all(sum(child.tag != "system-out" for child in case) <= 1 for case in cases)
    return report


def only(group: GroupCounts, *findings: Finding) -> Summary:
    return Summary("/tmp/report", TABLES, (replace(BROKEN, groups=(group,), findings=findings),))


def case_of(summary: Summary, fail_on: str = "violation") -> ET.Element:
    case, *_ = read(summary, fail_on).iter("testcase")
    return case


def test_windows_of_one_trace_are_suites_of_their_own_names() -> None:
    runs = tuple(replace(CLEAN, starts_from="state", window=Window(at, at + 1_000_000)) for at in (0, 1_000_000))
    first, second = (suite.attrib["name"] for suite in read(Summary("/tmp/report", TABLES, runs)))
    assert first == "traces/day, 1970-01-01T00:00:00Z to 1970-01-01T00:00:01Z"
    assert second != first


def test_a_suite_is_a_trace_and_a_case_a_rule_of_a_subscription() -> None:
    suites = list(read(BOTH))
    assert [(suite.attrib["name"], suite.attrib["tests"]) for suite in suites] == [
        ("traces/night", "5"),
        ("traces/day", "2"),
    ]
    assert [(case.attrib["name"], case.attrib["classname"]) for case in suites[0].iter("testcase")] == [
        (rule, "persistent://shop/eu/orders-partition-0, workers")
        for rule in ("early_duplicate", "ownership", "single_holder", "order", "progress")
    ]
    properties = {p.attrib["name"]: p.attrib["value"] for p in suites[0].iter("property")}
    assert (properties["run_key"], properties["completeness"]) == ("0123456789abcdef", "99.9 %")


def test_a_broken_rule_fails_with_its_worst_finding_and_the_evidence() -> None:
    _, _, holder, *_ = read(BOTH).iter("testcase")
    failure = holder.find("failure")
    assert failure is not None
    assert failure.attrib["type"] == "violation"
    assert failure.attrib["message"] == f"13 violation, 2 permitted: violation, key order-7: {FINDING.explanation}"
    assert failure.text is not None
    explain = "dispatch-audit explain /tmp/report --violation 3f2a9c04d1b7"
    parts = (f"what: {FINDING.what}", f"against: {FINDING.against}")
    assert failure.text.splitlines()[1:] == [f"  {line}" for line in (*parts, *FINDING.evidence, explain)]


def test_a_known_bug_is_named() -> None:
    duplicate, *_ = read(BOTH).iter("testcase")
    failure = duplicate.find("failure")
    assert failure is not None
    assert failure.attrib == {
        "type": "known_bug",
        "message": "1 known bug: known bug (F10): entry 7:130 was sent twice",
    }


@pytest.mark.parametrize(
    ("fail_on", "severity", "failed"),
    [
        ("violation", "violation", True),
        ("violation", "known_bug", True),
        ("violation", "permitted", False),
        ("permitted", "permitted", True),
        ("info", "info", True),
        ("not_provable", "not_provable", True),
        ("never", "violation", False),
    ],
)
def test_what_fails_the_audit_fails_the_case_and_nothing_else(fail_on: str, severity: str, failed: bool) -> None:
    case = case_of(only(group(counts("single_holder", 9, **{severity: 1}))), fail_on)
    assert (case.find("failure") is not None) == failed
    out = case.findtext("system-out")
    assert out == f"9 checks: 1 {severity.replace('_', ' ')}"


@pytest.mark.parametrize(("fail_on", "failed"), [("violation", False), ("held-up:7s", True), ("held-up:8s", False)])
def test_a_time_without_progress_fails_its_case_if_it_fails_the_audit(fail_on: str, failed: bool) -> None:
    order, progress = read(Summary("/tmp/report", TABLES, (HELD_UP,)), fail_on).iter("testcase")
    assert (order.attrib["name"], progress.attrib["name"]) == ("order", "progress")
    assert order.find("failure") is None
    assert (progress.find("failure") is not None) == failed
    assert progress.findtext("system-out") == "held up for 7.3 s by red (consumer 1) (draining)"


@pytest.mark.parametrize(("fail_on", "tag"), [("violation", "skipped"), ("not_provable", "failure")])
def test_an_answer_that_is_not_provable_does_not_pass(fail_on: str, tag: str) -> None:
    for case in read(Summary("/tmp/report", TABLES, (UNPROVEN,)), fail_on).iter("testcase"):
        result = case.find(tag)
        assert result is not None
        assert result.attrib["message"] == (
            "not provable: the trace does not show the keys of the entries and what was published"
        )


def test_what_cannot_be_proved_is_skipped_with_the_reason() -> None:
    doubt = replace(FINDING, severity="not_provable", explanation="permits are not recorded")
    case = case_of(only(group(counts("single_holder", 9, not_provable=2, permitted=1)), doubt))
    skipped = case.find("skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "2 not provable: not provable, key order-7: permits are not recorded"


def test_a_rule_that_was_applied_to_nothing_has_not_passed() -> None:
    skipped = case_of(only(group(counts("gap_delivery", 0)))).find("skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "the trace has nothing to apply the rule to"


def test_a_subscription_that_could_not_be_judged_has_not_passed() -> None:
    skipped = case_of(only(group(counts("single_holder", 9), completeness=0.0))).find("skipped")
    assert skipped is not None
    assert skipped.attrib["message"] == "nothing in the trace could be judged"


def test_a_rule_that_held_passes() -> None:
    assert list(case_of(only(group(counts("single_holder", 9))))) == []


def test_two_traces_of_one_name_stay_two() -> None:
    twins: tuple[RunSummary, ...] = (BROKEN, replace(BROKEN, run_key="fedcba9876543210"))
    assert len(list(read(replace(BOTH, runs=twins)).iter("testsuite"))) == 2
    assert len(list(read(replace(BOTH, runs=(CLEAN, CLEAN))).iter("testsuite"))) == 2


def test_names_of_clients_break_nothing() -> None:
    report = read(OF_HOSTILES)
    (suite,), (case, *_) = report.iter("testsuite"), report.iter("testcase")
    name = printable(HOSTILE)
    assert suite.attrib["name"] == name
    assert case.attrib["classname"] == f"{name}, {name}"
    failure = case.find("failure")
    assert failure is not None
    assert failure.attrib["message"] == f"1 violation: violation, key {name}: entry 7:120 went to {name}"
    # A line for what it is, for each part, for the row of the evidence and for the command.
    assert len((failure.text or "").splitlines()) == 7


def test_a_trace_that_could_not_be_audited_is_an_error() -> None:
    *_, suite = read(WITH_UNUSABLE)
    assert (suite.attrib["name"], suite.attrib["errors"], suite.attrib["failures"]) == ("traces/torn", "1", "0")
    (error,) = suite.iter("error")
    assert error.attrib["message"] == "traces/torn is empty; record it again"


def test_a_rule_with_accepted_findings_only_passes_and_counts_them() -> None:
    accepted = replace(FINDING, accepted=True)
    group_of = replace(group(counts("single_holder", 9, violation=1)), accepted={"violation": 1})
    case = case_of(only(group_of, accepted))
    assert [child.tag for child in case] == ["system-out"]
    assert case.findtext("system-out") == "9 checks: 1 violation (1 accepted by the baseline)"


def test_a_failed_rule_shows_what_is_not_accepted() -> None:
    new = replace(FINDING, explanation="a new one", evidence=("seq 1",))
    group_of = replace(group(counts("single_holder", 9, violation=2)), accepted={"violation": 1})
    failure = case_of(only(group_of, new, replace(FINDING, accepted=True))).find("failure")
    assert failure is not None
    assert failure.attrib["message"].startswith(
        "2 violation (1 accepted by the baseline): violation, key order-7: a new"
    )
    assert FINDING.evidence[0] not in (failure.text or "")
