"""What the command line makes of --from, --to and --reaudit, before Spark is started."""

from typing import Any

import pytest
from conftest import WriteTrace

import dispatch_audit.jobs.session
import dispatch_audit.pipeline.audit
from dispatch_audit.jobs.cli import main
from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.windows.window import WHOLE, Window


@pytest.fixture
def asked(write_trace: WriteTrace, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command line up to the audit; returns the exit code and what the audit was asked for."""
    trace = write_trace([{"event": "publish", "seq": 1}])
    requests: list[AuditRequest] = []

    def audit(spark: object, request: AuditRequest, progress: object) -> None:
        requests.append(request)
        raise TraceError("far enough")

    monkeypatch.setattr(dispatch_audit.jobs.session, "spark_session", lambda name, **options: None)
    monkeypatch.setattr(dispatch_audit.pipeline.audit, "audit", audit)

    def run(*arguments: str) -> tuple[Any, AuditRequest | None]:
        with pytest.raises(SystemExit) as exited:
            main(["audit", str(trace), "--out", str(trace.with_name("out")), *arguments])
        return exited.value.code, requests[-1] if requests else None

    return run


@pytest.mark.parametrize(
    ("arguments", "window", "reaudit_us"),
    [
        ([], WHOLE, None),
        (["--to", "1970-01-01T00:00:02"], Window(None, 2_000_000), None),
        (["--from", "1970-01-01T01:00:01+01:00", "--to", "2000000"], Window(1_000_000, 2_000_000), None),
        (["--from", "7"], Window(7, None), None),
        (["--reaudit", "7"], WHOLE, 7),
    ],
    ids=str,
)
def test_a_window_is_part_of_the_request(
    asked: Any, arguments: list[str], window: Window, reaudit_us: int | None
) -> None:
    code, request = asked(*arguments)
    assert code == 3
    assert (request.window, request.reaudit_us) == (window, reaudit_us)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "yesterday"], "'yesterday' is not a time; write 2026-11-21T14:00:00Z"),
        (["--from", "9", "--to", "8"], "the window from 9 to 8 is empty; --to must be later than --from"),
        (
            ["--reaudit", "9", "--to", "10"],
            "--reaudit repeats whole windows and takes neither --from nor --to; leave them out",
        ),
    ],
    ids=str,
)
def test_a_mistake_is_one_line_and_exit_2(
    asked: Any, capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert asked(*arguments) == (2, None)
    reported = capfd.readouterr().err
    assert reported.startswith(f"dispatch-audit: error: {message}")
    assert reported.count("\n") == 1
