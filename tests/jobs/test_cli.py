import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_summary import summary_of

import dispatch_audit.jobs.session
import dispatch_audit.pipeline.validation
from dispatch_audit.jobs.nightly_audit import audit_arguments
from dispatch_audit.pipeline.contract.answers import order_of
from dispatch_audit.pipeline.contract.severity import Severity
from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.run.request import ValidationResult

WriteTrace = Callable[..., Path]
RunCli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails a test that goes as far as starting Spark."""

    def refuse(name: str, **options: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(dispatch_audit.jobs.session, "spark_session", refuse)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit"], "Missing argument 'TRACE'; see dispatch-audit --help"),
        (["audit", "{trace}", "--out", "out", "--fail-on", "sometimes"], "--fail-on sometimes is no condition; the "),
        (["audit", "{trace}", "--out", "out", "--format", "xml"], "'xml' is not one of 'text', 'json', 'junit', "),
        (
            ["audit", "{trace}", "--out", "out", "--report", "xml=a"],
            "--report xml=a is not FORMAT=FILE; the formats are text, ",
        ),
        (["audit", "{trace}", "--out", "out", "--report", "junit="], "--report junit= is not FORMAT=FILE; "),
        (["audit", "{trace}", "--out", "out", "--report", "github=a"], "--report github=a is not FORMAT=FILE; "),
        (
            ["audit", "{trace}", "--out", "out", "--report", "junit=no/a.xml"],
            "cannot write no/a.xml: its folder does not exist; create the folder",
        ),
        (
            ["audit", "{trace}", "--out", "out", "--report", "junit={trace}"],
            "it is a folder; name a file",
        ),
        (
            ["audit", "{trace}", "--out", "out", "--report", "junit=a", "--report", "json=./a"],
            "two reports name the file a; give each --report a file of its own",
        ),
        (["validate", "{trace}", "--format", "junit"], "error: --format: 'junit' is not one of 'text', 'json'; see"),
        (["audit", "{trace}", "--findings", "many"], 'error: --findings is "many", no whole number; see '),
        (["audit", "{trace}", "--findings", "-1"], 'error: --findings is "-1", less than 0; see '),
        (["audit", "{trace}", "--out", "out", "--profile", "pulsar-1"], "there is no profile 'pulsar-1'; use one of: "),
        (["audit", "{trace}", "--out", "out", "--config", "no.toml"], "cannot read the configuration no.toml"),
        (["audit", "{trace}", "--out", "{trace}/trace.json"], "trace.json is a file, but the tables need a folder; "),
        (["audit", "nowhere", "--out", "out"], "there is no trace at "),
        (["validate", "nowhere"], "there is no trace at "),
        (["predict"], "No such command 'predict'; see"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_in_the_call_is_one_line_and_exit_2(
    run_cli: RunCli, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run_cli(*(argument.format(trace=trace) for argument in arguments))
    assert (code, out) == (2, "")
    assert err.startswith("dispatch-audit: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "out").exists()


def test_the_version_is_that_of_the_package(run_cli: RunCli) -> None:
    code, out, err = run_cli("--version")
    assert (code, err) == (0, "")
    assert out.startswith("dispatch-audit 0.")


@pytest.mark.heavy
def test_the_module_is_the_command_too() -> None:
    """Also its errors are logged: under its name as a module nobody would hear them."""
    arguments = ["audit", "nowhere", "--out", "out", "--log-format", "json"]
    command = [sys.executable, "-m", "dispatch_audit.jobs.cli", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert json.loads(ran.stderr)["message"].startswith("there is no trace at nowhere; ")


def test_without_a_command_there_is_help_on_stderr(run_cli: RunCli) -> None:
    code, out, err = run_cli()
    assert (code, out) == (2, "")
    assert "audit" in err


@pytest.mark.parametrize(
    ("found", "options", "expected"),
    [
        ((), (), 0),
        (("violation",), (), 1),
        (("known_bug",), (), 1),
        (("not_provable", "permitted", "info"), (), 0),
        (("not_provable",), ("--fail-on", "not_provable"), 1),
        (("info",), ("--fail-on", "info"), 1),
        (("violation",), ("--fail-on", "never"), 0),
    ],
)
def test_findings_decide_on_the_exit_code(
    run_cli: RunCli, audited: Any, trace: Path, found: tuple[Severity, ...], options: tuple[str, ...], expected: int
) -> None:
    audited(summary_of(*found))
    code, out, err = run_cli("audit", trace, "--out", "out", *options)
    assert (code, err) == (expected, "")
    assert f"\nORDER     {order_of(found, 9, ()).replace('_', ' ').upper()}  night: " in out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), 0),
        (("--fail-on", "held-up"), 1),
        (("--fail-on", "violation,held-up:7s"), 1),
        (("--fail-on", "violation", "--fail-on", "held-up:7300ms"), 0),
    ],
)
def test_a_time_without_progress_decides_on_the_exit_code_if_asked_for(
    run_cli: RunCli, audited: Any, trace: Path, options: tuple[str, ...], expected: int
) -> None:
    audited(summary_of(held_up_seconds=7.3))
    code, out, err = run_cli("audit", trace, "--out", "out", *options)
    assert (code, err) == (expected, "")
    assert "\nPROGRESS  HELD UP for 7.3 s (no_permits): nothing was sent to any consumer" in out


def test_arguments_become_a_request(run_cli: RunCli, audited: Any, trace: Path, tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text("[trace]\nrecorder_skew_ms = 25\n")
    requests = audited(summary_of())
    run_cli("audit", trace, "--out", "out", "--profile", "pulsar-4.0.3", "--config", config)
    (request,) = requests
    assert (request.paths, request.target, request.profile) == ((str(trace),), "out", "pulsar-4.0.3")
    assert request.settings.trace.recorder_skew_ms == 25


def test_json_is_one_object_and_nothing_else(run_cli: RunCli, audited: Any, trace: Path) -> None:
    audited(summary_of("known_bug"))
    code, out, err = run_cli("audit", trace, "--out", "out", "--format", "json")
    assert (code, err) == (1, "")
    assert json.loads(out)["verdict"] == "known_bug"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (TraceError("the trace is empty", "record again"), 3, "the trace is empty; record again"),
        (ZeroDivisionError("by zero\nat once"), 4, "internal error: ZeroDivisionError: by zero; --debug shows where"),
        (KeyboardInterrupt(), 130, "interrupted; traces without a row in `runs` were not audited: run the audit again"),
    ],
    ids=["trace", "internal", "interrupt"],
)
def test_an_error_is_one_line_without_a_traceback(
    run_cli: RunCli, audited: Any, trace: Path, error: BaseException, code: int, line: str
) -> None:
    audited(error)
    assert run_cli("audit", trace, "--out", "out") == (code, "", f"dispatch-audit: error: {line}\n")


def test_debug_shows_the_traceback(run_cli: RunCli, audited: Any, trace: Path) -> None:
    audited(ZeroDivisionError("by zero"))
    code, _, err = run_cli("audit", trace, "--out", "out", "--debug")
    assert code == 4
    assert "Traceback" in err
    assert err.endswith("dispatch-audit: error: internal error: ZeroDivisionError: by zero; see the traceback\n")


@pytest.mark.parametrize(("fault", "expected"), [("", 0), ("too much; record again", 3)])
def test_validate_says_what_would_be_refused(
    run_cli: RunCli, monkeypatch: pytest.MonkeyPatch, trace: Path, fault: str, expected: int
) -> None:
    result = ValidationResult(str(trace), "pulsar-4.2.4", None, 1_000, 5, {"missing_field": 1, "broken_json": 4}, fault)
    monkeypatch.setattr(dispatch_audit.jobs.session, "spark_session", lambda name, **options: None)
    monkeypatch.setattr(
        dispatch_audit.pipeline.validation, "validate", lambda spark, request, progress, **options: [result]
    )
    code, out, err = run_cli("validate", trace)
    assert (code, err) == (expected, f"dispatch-audit: error: {fault}\n" if fault else "")
    assert out == (
        f"{'UNUSABLE' if fault else 'USABLE'}  {trace}\n"
        "Read    1,000 events, 5 would be quarantined (0.5 %)\n"
        "        broken_json: 4\n"
        "        missing_field: 1\n"
        "Broker  by the rules of profile pulsar-4.2.4\n"
    )
    (checked,) = json.loads(run_cli("validate", trace, "--format", "json")[1])["traces"]
    assert (checked["usable"], checked["fault"]) == (not fault, fault or None)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("command", [["validate"], ["audit", "--out", "out"]], ids=["validate", "audit"])
def test_a_trace_by_entry_buckets_is_unusable(run_cli: RunCli, write_trace: WriteTrace, command: list[str]) -> None:
    settings = {"entryBucketDispatch": True}
    manifest = {"trace_format": 1, "pulsar_version": "5.0.1", "settings": settings}
    code, out, err = run_cli(*command, write_trace([{"event": "publish", "seq": 1}], manifest=manifest))
    assert (code, out) == (3, "")
    assert "entry-bucket dispatch" in err
    assert err.count("\n") == 1


def test_a_submitted_job_takes_the_arguments_of_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (["--", "night", "--out", "out"], ["night", "--out", "out"]):
        monkeypatch.setattr(sys, "argv", ["nightly_audit.py", *given])
        assert audit_arguments() == ["audit", "night", "--out", "out"]


def test_a_submitted_job_may_name_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("audit", "validate"):
        monkeypatch.setattr(sys, "argv", ["nightly_audit.py", "--", command, "night"])
        assert audit_arguments() == [command, "night"]


def test_a_parameter_of_a_job_that_is_empty_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["dispatch-audit-job", "night", "--out=main.audit", "--profile=", "--quiet"])
    assert audit_arguments() == ["audit", "night", "--out=main.audit", "--quiet"]


@pytest.mark.parametrize("command", [(), ("audit",), ("explain",), ("what-if",), ("record-stats",)])
def test_help_has_a_short_name(run_cli: RunCli, command: tuple[str, ...]) -> None:
    assert run_cli(*command, "-h") == run_cli(*command, "--help")
    assert run_cli(*command, "-h")[0] == 0


def test_an_audit_without_a_target_writes_where_the_other_commands_look(
    run_cli: RunCli, audited: Any, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    requests = audited(summary_of())
    assert run_cli("audit", trace)[0] == 0
    assert [request.target for request in requests] == ["dispatch-audit-tables"]
    assert "dispatch-audit-tables has no table runs" in run_cli("explain", "--hash", 1)[2]
