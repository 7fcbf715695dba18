"""From arguments to traces, without Spark."""

from pathlib import Path

import pytest

from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.trace.sources import Log, UnusableTrace, open_traces


def trace_at(folder: Path, *logs: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trace.json").write_text('{"trace_format": 1, "pulsar_version": "4.0.8"}')
    for log in logs:
        (folder / log).parent.mkdir(parents=True, exist_ok=True)
        (folder / log).touch()
    return folder


def kinds(folder: Path, logs: tuple[Log, ...]) -> dict[str, str]:
    return {str(Path(log.path).relative_to(folder)): log.kind for log in logs}


def test_a_folder_is_its_logs_and_nothing_else(tmp_path: Path) -> None:
    trace_at(
        tmp_path,
        *("messages.jsonl", "acks-0.jsonl.gz", "consumers.parquet", "stats/part-0.jsonl.gz"),
        *("events/_delta_log/0.json", "oracle.jsonl.gz", "expect.json", "notes/messages.jsonl"),
    )
    (trace,) = open_traces([tmp_path])
    assert trace.path == str(tmp_path)
    assert kinds(tmp_path, trace.logs) == {
        "messages.jsonl": "json",
        "acks-0.jsonl.gz": "json",
        "consumers.parquet": "parquet",
        "stats": "json",
        "events": "delta",
    }


def test_each_subfolder_with_a_manifest_is_a_trace(tmp_path: Path) -> None:
    trace_at(tmp_path / "b", "events.jsonl")
    trace_at(tmp_path / "a", "events.jsonl")
    (tmp_path / "drafts").mkdir()
    for folder in (tmp_path, f"file://{tmp_path}"):
        assert [Path(trace.path).name for trace in open_traces([folder])] == ["a", "b"]


def test_a_trace_that_cannot_be_opened_leaves_the_others(tmp_path: Path) -> None:
    trace_at(tmp_path / "b", "events.jsonl")
    trace_at(tmp_path / "a", "events.jsonl")
    (tmp_path / "a" / "trace.json").write_text("{}")
    unusable: list[UnusableTrace] = []
    assert [Path(trace.path).name for trace in open_traces([tmp_path], unusable=unusable)] == ["b"]
    ((path, error),) = unusable
    assert (path, path in str(error)) == (str(tmp_path / "a"), True)
    with pytest.raises(TraceError, match="trace_format is None"):
        open_traces([tmp_path])
    with pytest.raises(TraceError, match="trace_format is None"):
        open_traces([tmp_path / "a"], unusable=[])


def test_logs_beside_one_manifest_are_one_trace(tmp_path: Path) -> None:
    trace_at(tmp_path / "a", "messages.jsonl", "acks.jsonl")
    trace_at(tmp_path / "b", "events.jsonl")
    traces = open_traces([tmp_path / "a/messages.jsonl", tmp_path / "b", tmp_path / "a/acks.jsonl"])
    assert [[Path(log.path).name for log in trace.logs] for trace in traces] == [
        ["messages.jsonl", "acks.jsonl"],
        ["events.jsonl"],
    ]


def test_a_log_named_twice_is_read_once(tmp_path: Path) -> None:
    trace_at(tmp_path, "events.jsonl")
    (trace,) = open_traces([tmp_path, tmp_path / "events.jsonl", f"file://{tmp_path}"])
    assert len(trace.logs) == 1


@pytest.mark.parametrize("log", ["_delta_log/0.json", "part-0.parquet"])
@pytest.mark.parametrize("home", [".", "table"])
def test_a_folder_that_is_a_log_has_its_manifest_in_or_beside_it(tmp_path: Path, log: str, home: str) -> None:
    trace_at(tmp_path / home)
    (tmp_path / "table" / log).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "table" / log).touch()
    (trace,) = open_traces([tmp_path / "table"])
    assert [log.path for log in trace.logs] == [str(tmp_path / "table")]
    assert trace.manifest.pulsar_version == "4.0.8"


def test_what_spark_alone_can_reach_is_taken_by_its_name() -> None:
    names = ["main.audit.events", "hdfs://b/t/messages*.jsonl.gz", "wasbs://c@a/x.parquet", "dbfs:/t/events"]
    (trace,) = open_traces(names, "pulsar-4.2.4")
    assert [(log.kind, log.path) for log in trace.logs] == [
        ("table", names[0]),
        ("json", names[1]),
        ("parquet", names[2]),
        ("delta", names[3]),
    ]
    assert trace.logs[1].glob == names[1]
    with pytest.raises(UsageError, match="--profile"):
        open_traces(names)


@pytest.mark.parametrize("name", ["missing", "missing.jsonl", "a.b.jsonl", "a.b", "/missing/messages.parquet"])
def test_a_missing_path_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError, match="there is no trace at"):
        open_traces([name], "pulsar-4.2.4")


def test_a_folder_without_logs_is_no_trace(tmp_path: Path) -> None:
    trace_at(tmp_path, "oracle.jsonl.gz")
    with pytest.raises(TraceError, match=r"has no logs.*messages\*"):
        open_traces([tmp_path])


@pytest.mark.parametrize(
    ("logs", "named"),
    [
        (["messages.csv"], "messages.csv"),
        (["messages/readme.txt"], "messages has no log files"),
        (["messages/a.jsonl", "messages/b.parquet"], "messages has both"),
    ],
)
def test_a_log_of_unknown_kind_is_not_passed_over(tmp_path: Path, logs: list[str], named: str) -> None:
    trace_at(tmp_path, "acks.jsonl", *logs)
    with pytest.raises(TraceError, match=named):
        open_traces([tmp_path])


def test_characters_of_globs_are_meant_literally(tmp_path: Path) -> None:
    folder = trace_at(tmp_path / "a[1]{x}*", "events.jsonl")
    (trace,) = open_traces([folder])
    assert trace.logs[0].glob == str(tmp_path) + r"/a\[1\]\{x\}\*/events.jsonl"
