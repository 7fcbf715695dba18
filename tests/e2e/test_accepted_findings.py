"""`audit --baseline`: accepted findings are counted everywhere, and fail nothing."""

import json
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from embedded_commands import EmbeddedCommands
from samples import SAMPLES

from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of

pytestmark = pytest.mark.e2e

FINDINGS = 13


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_embedded: EmbeddedCommands) -> Path:
    """A folder with a trace, and the baseline of its findings."""
    shutil.copytree(SAMPLES / "heavy-churn-3.0.7", tmp_path / "churn")
    monkeypatch.chdir(tmp_path)
    done = run_embedded("audit", "churn", "--out", "tables", "--write-baseline", "baseline.json")
    assert done.returncode == 0, done.stderr
    assert f"wrote {FINDINGS} findings of 1 trace to baseline.json" in done.stderr
    return tmp_path


def without_one(baseline: Path) -> None:
    """Takes the first finding out of a baseline."""
    content = json.loads(baseline.read_text())
    del content["findings"][0]
    baseline.write_text(json.dumps(content))


def test_accepted_findings_fail_nothing_and_are_counted(home: Path, run_embedded: EmbeddedCommands) -> None:
    reports = [f"--report={form}=report.{form}" for form in ("text", "json", "junit", "sarif", "html")]
    done = run_embedded("audit", "churn", "--out", "tables", "--baseline", "baseline.json", *reports)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"({FINDINGS} accepted by the baseline)" in done.stdout
    assert "known bug  single_holder" not in done.stdout
    reported = json.loads((home / "report.json").read_text())
    assert (reported["accepted"], reported["order"]) == (FINDINGS, "known_bug")
    assert reported["rules"]["single_holder"]["accepted"] == FINDINGS
    # Facts need no look, so nobody accepts them.
    assert all(finding["accepted"] or finding["severity"] == "info" for finding in reported["traces"][0]["findings"])
    suites = ET.parse(home / "report.junit").getroot()
    assert (suites.get("failures"), suites.get("errors")) == ("0", "0")
    (case,) = (case for case in suites.iter("testcase") if case.get("name") == "single_holder")
    assert f"{FINDINGS} accepted by the baseline" in (case.findtext("system-out") or "")
    (run,) = json.loads((home / "report.sarif").read_text())["runs"]
    assert [result["suppressions"] for result in run["results"]] == [[{"kind": "external", "status": "accepted"}]] * 13
    # One incident, and its findings.
    assert (home / "report.html").read_text().count("· accepted by the baseline") == 1 + FINDINGS
    tables = tables_of(None, parse_target("tables"))
    assert tables.query("runs", "findings_accepted") == [{"findings_accepted": FINDINGS}]
    assert tables.query("violations", "count(*) AS number", "WHERE accepted") == [{"number": FINDINGS}]


def test_a_finding_that_is_not_accepted_fails_alone(home: Path, run_embedded: EmbeddedCommands) -> None:
    without_one(home / "baseline.json")
    done = run_embedded(
        "audit", "churn", "--out", "tables", "--baseline", "baseline.json", "--report", "junit=j.xml", "--format=github"
    )
    assert done.returncode == 1
    assert done.stdout.count("::error") == 1
    (failure,) = ET.parse(home / "j.xml").getroot().iter("failure")
    assert [line[:9] for line in (failure.text or "").splitlines() if not line.startswith(" ")] == ["known bug"]
    assert (failure.text or "").count("entry 1:1196") == 1
    assert done.stdout.count("entry 1:1196") == 1


def test_what_is_not_found_any_more_is_named(home: Path, run_embedded: EmbeddedCommands) -> None:
    content = (home / "baseline.json").read_text().replace('"1:1196"', '"1:99"')
    (home / "baseline.json").write_text(content)
    options = ("--out", "tables", "--fail-on", "never", "--report", "json=r.json")
    done = run_embedded("audit", "churn", "--baseline", "baseline.json", *options)
    assert done.returncode == 0
    assert "baseline.json has 1 line that no longer has its finding: single_holder in churn, " in done.stderr
    assert "Stale   the baseline accepts single_holder in churn, " in done.stdout
    assert [stale["entry"] for stale in json.loads((home / "r.json").read_text())["stale"]] == ["1:99"]


def test_an_audit_without_the_baseline_finds_them_again(home: Path, run_embedded: EmbeddedCommands) -> None:
    run_embedded("audit", "churn", "--out", "tables", "--baseline", "baseline.json")
    done = run_embedded("audit", "churn", "--out", "tables")
    assert (done.returncode, "accepted" in done.stdout) == (1, False)
    assert tables_of(None, parse_target("tables")).query("runs", "findings_accepted") == [{"findings_accepted": None}]


def test_a_window_names_nothing_as_stale(home: Path, run_embedded: EmbeddedCommands) -> None:
    ends = ("--to", "2026-11-21T01:43:20Z")
    done = run_embedded(
        "audit", "churn", "--out", "w", "--baseline", "baseline.json", *ends, "--fail-on", "only:known_bug"
    )
    assert (done.returncode, "no longer" in done.stderr) == (0, False)


@pytest.mark.parametrize("condition", ["never", "held-up:1s"])
def test_a_baseline_that_accepts_nothing_is_refused(home: Path, run_embedded: EmbeddedCommands, condition: str) -> None:
    before = (home / "baseline.json").read_text()
    done = run_embedded("audit", "churn", "--fail-on", condition, "--write-baseline", "baseline.json")
    assert (done.returncode, (home / "baseline.json").read_text()) == (2, before)
    assert "so that --write-baseline accepts none" in done.stderr


def test_a_window_writes_no_baseline(home: Path, run_embedded: EmbeddedCommands) -> None:
    done = run_embedded("audit", "churn", "--out", "w", "--to", "2026-11-21T01:43:20Z", "--write-baseline", "b.json")
    assert (done.returncode, (home / "b.json").exists()) == (2, False)
    assert "--write-baseline takes in all findings of a trace" in done.stderr
