"""Whether an audit is so brief that its JVM had better not compile much."""

from pathlib import Path

import pytest

from jobs.brief import BRIEF_BYTES_MAX, is_brief
from pipeline.trace import open_traces

SAMPLE = "data/samples/heavy-churn-3.0.7"


def _log_of(folder: Path, size: int) -> Path:
    folder.mkdir()
    log = folder / "events.jsonl"
    with log.open("wb") as file:
        file.truncate(size)
    return log


def test_a_sample_is_brief() -> None:
    assert is_brief(open_traces([SAMPLE]))


@pytest.mark.parametrize(("more", "brief"), [(0, True), (1, False)])
def test_the_bytes_of_all_traces_count(tmp_path: Path, more: int, brief: bool) -> None:
    half = BRIEF_BYTES_MAX // 2
    logs = [_log_of(tmp_path / "one", half), _log_of(tmp_path / "other", half + more)]
    assert is_brief(open_traces(logs, "pulsar-4.0.7")) is brief


def test_a_log_of_many_files_is_as_large_as_they_are_together(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    for number in range(2):
        _log_of(folder / str(number) if number else folder, BRIEF_BYTES_MAX // 2 + 1)
    assert not is_brief(open_traces([tmp_path], "pulsar-4.0.7"))


@pytest.mark.parametrize("source", ["catalog.schema.trace", "s3://bucket/trace"])
def test_what_only_spark_can_reach_may_be_large(source: str) -> None:
    assert not is_brief(open_traces([SAMPLE, source], "pulsar-4.0.7"))
