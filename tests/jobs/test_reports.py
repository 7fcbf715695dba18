"""Formats, files and logs of the command line."""

import json
import logging
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_summary import summary_of

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.windows.window import Window

RunCli = Callable[..., tuple[int, str, str]]


def test_junit_on_stdout(run_cli: RunCli, audited: Any, trace: Path) -> None:
    audited(summary_of("violation"))
    code, out, err = run_cli("audit", trace, "--out", "out", "--format", "junit")
    assert (code, err) == (1, "")
    assert ET.fromstring(out).attrib["failures"] == "1"


def test_junit_fails_by_the_same_measure_as_the_exit_code(run_cli: RunCli, audited: Any, trace: Path) -> None:
    audited(summary_of("permitted"))
    for level, expected in (("violation", (0, "0")), ("permitted", (1, "1"))):
        code, out, _ = run_cli("audit", trace, "--out", "out", "--format", "junit", "--fail-on", level)
        assert (code, ET.fromstring(out).attrib["failures"]) == expected


def test_sarif_on_stdout_knows_the_log(
    run_cli: RunCli, audited: Any, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trace)
    audited(summary_of("violation"))
    _, out, err = run_cli("audit", ".", "--out", "../out", "--format", "sarif")
    ((result,),) = (run["results"] for run in json.loads(out)["runs"])
    assert err == ""
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "events.jsonl"


def test_github_annotates_and_adds_to_the_page_of_the_step(
    run_cli: RunCli, audited: Any, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text("# before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    audited(summary_of("violation"))
    _, out, _ = run_cli("audit", trace, "--out", "out", "--format", "github")
    assert out.startswith("::error file=")
    assert out.count("\n") == 1
    assert page.read_text().startswith("# before\n### night: order broken, progress flowing\n")


def test_github_needs_no_page(run_cli: RunCli, audited: Any, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    audited(summary_of())
    assert run_cli("audit", trace, "--out", "out", "--format", "github") == (0, "", "")


def test_one_audit_writes_every_format(run_cli: RunCli, audited: Any, trace: Path, tmp_path: Path) -> None:
    requests = audited(summary_of("known_bug"))
    files = {form: tmp_path / f"report.{form}" for form in ("text", "json", "junit", "sarif")}
    options = [f"--report={form}={file}" for form, file in files.items()]
    code, out, err = run_cli("audit", trace, "--out", "out", "--format", "json", *options)
    assert (code, err, len(requests)) == (1, "", 1)
    assert json.loads(files["json"].read_text()) == json.loads(out)
    assert json.loads(files["sarif"].read_text())["version"] == "2.1.0"
    assert ET.fromstring(files["junit"].read_bytes()).tag == "testsuites"
    assert "\nORDER     KNOWN BUG  night: " in files["text"].read_text()


@pytest.mark.parametrize("form", ["text", "sarif", "github"])
def test_windows_that_were_audited_again_are_runs_of_one_trace(
    run_cli: RunCli, audited: Any, trace: Path, form: str
) -> None:
    (run,) = summary_of("known_bug").runs
    windows = tuple(replace(run, starts_from="state", window=Window(at, at + 5)) for at in (0, 5))
    audited(replace(summary_of(), runs=windows))
    code, out, err = run_cli("audit", trace, "--out", "out", "--reaudit", "0", "--format", form)
    assert (code, err) == (1, "")
    # The answer on order repeats the worst finding; a result in SARIF says it in its message and among its properties.
    assert out.count("a known_bug") == {"text": 4, "sarif": 6, "github": 2}[form]


def test_a_text_in_a_file_has_no_colours(
    run_cli: RunCli, audited: Any, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    audited(summary_of("violation"))
    file = tmp_path / "report.txt"
    _, out, _ = run_cli("audit", trace, "--out", "out", "--report", f"text={file}")
    assert "\x1b[" in out
    assert "\x1b" not in file.read_text()


def test_a_file_that_cannot_be_written_is_one_line(run_cli: RunCli, audited: Any, trace: Path, tmp_path: Path) -> None:
    audited(summary_of())
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    code, out, err = run_cli("audit", trace, "--out", "out", "--report", f"junit={full}")
    assert (code, out) == (2, "")
    way_out = "the audit is in the tables; choose another file and run it again"
    assert err == f"dispatch-audit: error: cannot write {full}: No space left on device; {way_out}\n"


def logged(err: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in err.splitlines()]


def test_a_remark_is_a_line_of_the_log_too(run_cli: RunCli, audited: Any, trace: Path) -> None:
    summary = summary_of()
    audited(replace(summary, runs=(replace(summary.runs[0], starts_from="state", events_late=3),)))
    _, _, err = run_cli("audit", trace, "--out", "out", "--to", "9", "--log-format", "json")
    (remark,) = [line for line in logged(err) if line["level"] == "WARNING"]
    assert remark["message"].startswith(
        "night: 3 rows were added to earlier windows after their audit, and no run has audited them; "
    )


def test_logs_are_one_object_a_line(run_cli: RunCli, audited: Any, trace: Path) -> None:
    audited(summary_of("known_bug"))
    code, _, err = run_cli("audit", trace, "--out", "out", "--log-format", "json")
    start, report, run, end = logged(err)
    assert [(line["message"], line.get("stage")) for line in (start, report)] == [
        ("stage", "start the engine"),
        ("stage", "report"),
    ]
    assert all(line["seconds"] >= 0 and line["level"] == "INFO" for line in (start, report))
    assert (run["run_key"], run["verdict"], run["events"]) == ("0123456789abcdef", "known_bug", 9)
    assert run["findings"]["single_holder"]["known_bug"] == 1
    assert (end["message"], end["exit_code"]) == ("end", code) == ("end", 1)


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (TraceError("the trace is\nempty", "record again"), 3, "the trace is empty; record again"),
        (ZeroDivisionError("by zero"), 4, "internal error: ZeroDivisionError: by zero; --debug shows where"),
        (KeyboardInterrupt(), 130, "interrupted; traces without a row in `runs` were not audited: run the audit again"),
    ],
    ids=["trace", "internal", "interrupt"],
)
def test_an_error_is_logged_with_its_exit_code(
    run_cli: RunCli, audited: Any, trace: Path, error: BaseException, code: int, message: str
) -> None:
    audited(error)
    returned, out, err = run_cli("audit", trace, "--out", "out", "--log-format", "json")
    last = logged(err)[-1]
    assert (returned, out) == (code, "")
    assert (last["level"], last["message"], last["exit_code"]) == ("ERROR", message, code)


def test_nothing_is_left_of_the_logs_when_the_command_is_done(run_cli: RunCli, audited: Any, trace: Path) -> None:
    audited(summary_of())
    run_cli("audit", trace, "--out", "out", "--log-format", "json")
    assert not logging.getLogger("dispatch_audit").handlers
    assert run_cli("audit", trace, "--out", "out")[2] == ""
