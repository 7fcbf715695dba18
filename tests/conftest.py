"""What all tests share: recordings, how a small trace is written, the command line in-process, one Spark session."""

import gc
import gzip
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsers import chromium
from embedded_commands import EmbeddedCommands, embedded_process
from examples import register_profiles
from pyspark.sql import SparkSession
from real_broker import NO_BROKER
from recorded import ALL, RECORDINGS
from samples import SAMPLES, unzipped
from traces_of_docs import BAD, JOIN_LEAVE, MIXED, NAMES, UNBLOCKED

from dispatch_audit.jobs.engines.java import has_java

if TYPE_CHECKING:
    from ways import Way

MANIFEST = {"trace_format": 1, "pulsar_version": "4.0.8", "complete_from_start": True}

NO_JAVA = "there is no Java 17 or later for Apache Spark"
NO_BROWSER = "there is no Chromium for the pages"
LONGEST = ("spark", "broker", "embedded", "wheel")
"""Groups of tests that take minutes, in the order in which processes take them."""

pytest_plugins = ["page_fixtures", "broker_fixtures", "table_fixtures", "store_fixtures"]

WriteTrace = Callable[..., Path]
RunCli = Callable[..., tuple[int, str, str]]


# Tests hold recordings as millions of Python objects. Looking through all of them for garbage, as often as Python does
# by default, took a fifth of the time of those tests.
gc.set_threshold(100_000, 50, 100)

# Before Hypothesis loads the one that `--hypothesis-profile` names.
register_profiles()


# Before xdist's own, which reads the groups that are added here.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests of one recording after each other, and last those of several: few replays are kept at a time.

    Of several processes one has the session of Spark, and one makes what several tests share. The groups that take
    minutes come first, so that none of them is what the others wait for at the end.
    """
    groups = {item: _on_jvm(item) or _recording(item) or _shared(item) for item in items}
    items.sort(key=lambda item: (_place(groups[item]), _is_of_several(item), _recording(item)))
    for item in items:
        if item.config.pluginmanager.hasplugin("xdist") and groups[item]:
            item.add_marker(pytest.mark.xdist_group(groups[item]))
    for item in items:
        if item.get_closest_marker("slow_through_spark") and item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.slow)
    # A test that needs a broker asks for its release when it starts it (`real_broker.running_broker`).
    needed = (("spark", has_java, NO_JAVA), ("browser", chromium, NO_BROWSER))
    for marker, is_there, reason in needed:
        in_need = [item for item in items if item.get_closest_marker(marker)]
        if in_need and not is_there():
            for item in in_need:
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how many tests were left out because there is no Java, no browser, or no broker."""
    skipped = (report.longrepr for report in terminalreporter.stats.get("skipped", ()))
    reasons = Counter(where[2].removeprefix("Skipped: ") for where in skipped if isinstance(where, tuple))
    for reason, left_out in reasons.items():
        if reason.startswith((NO_JAVA, NO_BROWSER, NO_BROKER)):
            terminalreporter.write_line(f"{left_out} tests were left out: {reason}", yellow=True)


def _place(group: str) -> int:
    return LONGEST.index(group) if group in LONGEST else len(LONGEST)


def _on_jvm(item: pytest.Item) -> str:
    """`spark` for a test on the session that all tests share; one that starts a JVM of its own can run beside it.

    Brokers run one after the other, each with its process, in the group `broker`.
    """
    asked = isinstance(item, pytest.Function) and not {"spark", "way"}.isdisjoint(item.fixturenames)
    if item.get_closest_marker("broker"):
        return "broker"
    return "spark" if asked and item.get_closest_marker("spark") else ""


def _shared(item: pytest.Item) -> str:
    """What a test shares with others: the process with the embedded engine, wheels, or a fixture of its module."""
    if not isinstance(item, pytest.Function):
        return ""
    if "s3_options" in item.fixturenames:
        return "embedded"  # where its commands run, so that the server is started once
    if "run_embedded" in item.fixturenames:
        return "embedded"
    if "wheel" in item.fixturenames:
        return "wheel"  # builds write compiled code to one folder of the user, so that the second compiles nothing
    # pytest has no public way to ask for the scope of a fixture.
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    has_own = any(found.scope == "module" for of_name in fixtures for found in of_name)
    return item.nodeid.split("::")[0] if has_own else ""


def _recording(item: pytest.Item) -> str:
    """The recording that a test is run for; empty: none, or several."""
    chosen = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    return next((value for value in chosen if isinstance(value, str) and value in ALL), "")


def _is_of_several(item: pytest.Item) -> bool:
    return not _recording(item) and item.get_closest_marker("recordings") is not None


@pytest.fixture(scope="session")
def recordings() -> Path:
    """The folder of recorded traces."""
    return RECORDINGS


@pytest.fixture
def write_trace(tmp_path: Path) -> WriteTrace:
    """Writes a trace of rows (mappings, or the text of a line) into one log and returns its folder."""

    def write(
        rows: Sequence[Mapping[str, Any] | str],
        *,
        log: str = "events.jsonl",
        manifest: Mapping[str, Any] = MANIFEST,
        ending: str = "\n",
    ) -> Path:
        folder = tmp_path / "trace"
        folder.mkdir(exist_ok=True)
        (folder / "trace.json").write_text(json.dumps(manifest))
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        text = ("\n".join(lines) + ending).encode()
        (folder / log).write_bytes(gzip.compress(text) if log.endswith(".gz") else text)
        return folder

    return write


@pytest.fixture
def trace(write_trace: WriteTrace) -> Path:
    """A trace that opens; what it contains is not looked at."""
    return write_trace([{"event": "publish", "seq": 1}])


@pytest.fixture
def run_cli(capfd: pytest.CaptureFixture[str]) -> RunCli:
    """Runs the command line; returns its exit code, stdout and stderr."""
    from dispatch_audit.jobs.cli import main

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exited:
            main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        code = exited.value.code or 0
        assert isinstance(code, int)
        return code, captured.out, captured.err

    return run


@pytest.fixture(scope="session")
def run_embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCommands]:
    """Runs the command line on the embedded engine, in one process for all tests that ask for it."""
    with embedded_process(tmp_path_factory.mktemp("embedded")) as commands:
        yield commands


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[Any]]:
    """Puts something else in the place of Spark and the audit: a summary to report, or an error to raise."""
    # The compiler behind the replay takes a second to import.
    import dispatch_audit.jobs.session
    import dispatch_audit.pipeline.audit
    import dispatch_audit.pipeline.report.query
    from dispatch_audit.pipeline.report.summary import Summary
    from dispatch_audit.pipeline.run.request import AuditRequest, AuditResult
    from dispatch_audit.pipeline.trace import open_traces

    def put(outcome: Summary | BaseException) -> list[AuditRequest]:
        requests: list[AuditRequest] = []

        def audit(spark: object, request: AuditRequest, progress: Callable[[str], None]) -> AuditResult:
            requests.append(request)
            progress("replay")
            if isinstance(outcome, BaseException):
                raise outcome
            # Of one trace, which may have been audited in windows.
            (trace,) = open_traces(request.paths, request.profile)
            run_keys = tuple(run.run_key for run in outcome.runs)
            return AuditResult(request.target, run_keys, (trace,) * len(run_keys))

        monkeypatch.setattr(dispatch_audit.jobs.session, "spark_session", lambda name, **options: None)
        monkeypatch.setattr(dispatch_audit.pipeline.audit, "audit", audit)
        monkeypatch.setattr(dispatch_audit.pipeline.report.query, "summarise", lambda spark, target, run_keys: outcome)
        return requests

    return put


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The product's own session, set for tiny data; the JVM starts when the first test asks for it."""
    if not has_java():
        pytest.skip(NO_JAVA)
    # Not imported above: collecting the tests that need no JVM should not wait for it.
    from dispatch_audit.jobs.engines.load import Load
    from dispatch_audit.jobs.session import spark_session

    # The workers have to be the interpreter of the tests, not the first python3 on the PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Tests ask queries of few rows, most of them once: compiling each takes longer than running it.
    session = spark_session("dispatch-audit tests", load=Load.BRIEF, engine="spark")
    # More than one, so that a result that depends on the order of partitions shows; few, as each is a task.
    session.conf.set("spark.sql.shuffle.partitions", "2")
    # Delta replays its log with 50 tasks by default, for a handful of commits.
    session.conf.set("spark.databricks.delta.snapshotPartitions", "1")
    # Times are UTC wherever the tests run.
    session.conf.set("spark.sql.session.timeZone", "UTC")
    yield session
    session.stop()


@pytest.fixture(
    scope="module",
    params=["below a path by delta-rs", pytest.param("below a URI through Spark", marks=pytest.mark.spark)],
)
def way(request: pytest.FixtureRequest) -> "Way":
    """Both ways of writing tables, one after the other; the JVM starts only for the second."""
    # The writer of Delta takes time to import, which most tests do not need.
    from ways import Way, by_path, by_uri

    if "path" in request.param:
        return Way(None, by_path)
    return Way(request.getfixturevalue("spark"), by_uri)


@pytest.fixture(scope="session")
def audited_traces(run_embedded: EmbeddedCommands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tables of the audit, `tables`, and its reports: `report.json`, `.txt` and `.perfetto`."""
    folder = tmp_path_factory.mktemp("docs")
    bad = unzipped(JOIN_LEAVE, folder / BAD)
    with (bad / "acks.jsonl").open("a") as log:
        log.write("no JSON\nno JSON either\n")
    traces = [SAMPLES, bad, *(RECORDINGS / name for name in (UNBLOCKED, NAMES, MIXED))]
    reports = ["--report=json=report.json", "--report=text=report.txt", "--report=perfetto=report.perfetto"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        options = ["--out", "tables", "--fail-on", "never", "--quiet", "--format", "json"]
        done = run_embedded("audit", *traces, *options, *reports)
    assert done.returncode == 0, done.stderr
    return folder
