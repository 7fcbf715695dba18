"""How much of its code the JVM of an audit had better compile."""

from pathlib import Path

import pytest

from dispatch_audit.jobs.engines.load import BRIEF_BYTES_MAX, Load, load_of
from dispatch_audit.pipeline.trace import open_traces

SAMPLE = "data/samples/heavy-churn-3.0.7"


def _log_of(folder: Path, size: int, ending: str = "jsonl") -> Path:
    folder.mkdir()
    log = folder / f"events.{ending}"
    with log.open("wb") as file:
        file.truncate(size)
    return log


def test_a_sample_is_brief() -> None:
    assert load_of(open_traces([SAMPLE])) is Load.BRIEF


@pytest.mark.parametrize(("more", "load"), [(0, Load.BRIEF), (1, Load.CHUNKS)])
def test_the_bytes_of_all_traces_count(tmp_path: Path, more: int, load: Load) -> None:
    half = BRIEF_BYTES_MAX // 2
    logs = [_log_of(tmp_path / "one", half), _log_of(tmp_path / "other", half + more)]
    assert load_of(open_traces(logs, "pulsar-4.0.7")) is load


def test_a_log_of_many_files_is_as_large_as_they_are_together(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    for number in range(2):
        _log_of(folder / str(number), BRIEF_BYTES_MAX // 2 + 1)
    assert load_of(open_traces([tmp_path], "pulsar-4.0.7")) is Load.CHUNKS


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "delta"])
def test_of_large_files_the_jvm_sees_chunks(tmp_path: Path, kind: str) -> None:
    log = _log_of(tmp_path / kind, BRIEF_BYTES_MAX + 1, kind.replace("delta", "parquet"))
    if kind == "delta":
        (log.parent / "_delta_log").mkdir()
    assert load_of(open_traces([log.parent if kind == "delta" else log], "pulsar-4.0.7")) is Load.CHUNKS


@pytest.mark.parametrize("source", ["catalog.schema.trace", "hdfs://host/trace", "hdfs://host/trace.parquet"])
def test_what_only_spark_can_reach_may_be_large(source: str) -> None:
    assert load_of(open_traces([SAMPLE, source], "pulsar-4.0.7")) is Load.ROWS
