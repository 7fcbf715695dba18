"""Which recordings that lie side by side are one trace."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dispatch_audit.pipeline.run.audit_task import audit_tasks
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.trace import Trace, open_traces
from dispatch_audit.pipeline.trace.side_by_side import put_together
from dispatch_audit.pipeline.windows.window import Window

FIRST, SECOND = "10.0.0.7-20261128T095038.030Z", "10.0.0.7-20261128T095206.520Z"
OTHER_BROKER = "10.0.0.8-20261128T095100.000Z"


def recorded(folder: Path, ledger: int, ts_us: int, topic: str = "a", **manifest: Any) -> Path:
    """A recording whose first publish to a topic is in a ledger."""
    (folder / "events").mkdir(parents=True)
    claims = {"trace_format": 1, "pulsar_version": "4.2.4", "settings": {"numIOThreads": 4}}
    recorder = {"name": "dispatch-audit-recorder", "version": "0.1.0"}
    (folder / "trace.json").write_text(json.dumps({**claims, "recorder": recorder, **manifest}))
    row = {"event": "publish", "seq": 1, "ts_us": ts_us, "broker": folder.name, "topic": topic, "ledger_id": ledger}
    with gzip.open(folder / "events" / "000001.jsonl.gz", "wt") as log:
        log.write(f'{{"event": "heartbeat"}}\n{json.dumps(row)}\n')
    return folder


def found(*folders: Path) -> list[Trace]:
    return put_together(open_traces([str(folder) for folder in folders]))


def test_the_starts_of_a_broker_are_one_trace_named_together_or_by_their_folder(tmp_path: Path) -> None:
    both = [recorded(tmp_path / FIRST, 3, 10), recorded(tmp_path / SECOND, 5, 20, complete_from_start=False)]
    for (trace,) in (found(*both), found(tmp_path)):
        assert trace.path == str(tmp_path)
        assert [log.path for log in trace.logs] == [str(folder / "events") for folder in both]
        assert not trace.manifest.complete_from_start


def test_some_of_those_in_a_folder_have_their_names(tmp_path: Path) -> None:
    both = [recorded(tmp_path / FIRST, 3, 10), recorded(tmp_path / SECOND, 5, 20)]
    recorded(tmp_path / OTHER_BROKER, 7, 30)
    (trace,) = found(*both)
    assert trace.path == f"{both[0]}, {both[1]}"


def test_a_topic_moves_between_brokers_whichever_started_first(tmp_path: Path) -> None:
    recorded(tmp_path / FIRST, 9, 40)
    recorded(tmp_path / OTHER_BROKER, 7, 30)
    assert len(found(tmp_path)) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"ledger": 3},
        {"settings": {"numIOThreads": 8}},
        {"pulsar_version": "4.2.3"},
        {"keys": "digest"},
        {"recorder": {"name": "another"}},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_other_brokers_and_other_storage_are_other_traces(tmp_path: Path, changed: dict[str, Any]) -> None:
    recorded(tmp_path / FIRST, 3, 10)
    recorded(tmp_path / SECOND, **{"ledger": 5, "ts_us": 20, **changed})
    assert len(found(tmp_path)) == 2


def test_folders_of_other_names_or_places_are_other_traces(tmp_path: Path) -> None:
    renamed = [recorded(tmp_path / "before", 3, 10), recorded(tmp_path / "after", 5, 20)]
    apart = [recorded(tmp_path / "a" / FIRST, 3, 10), recorded(tmp_path / "b" / SECOND, 5, 20)]
    assert len(found(*renamed)) == len(found(*apart)) == 2


def test_a_log_that_cannot_be_read_is_no_reason_to_fail_here(tmp_path: Path) -> None:
    recorded(tmp_path / FIRST, 3, 10)
    torn = recorded(tmp_path / SECOND, 5, 20) / "events" / "000001.jsonl.gz"
    torn.write_bytes(torn.read_bytes()[:20])
    assert len(found(tmp_path)) == 1


@pytest.mark.parametrize(("window", "traces"), [(Window(None, None), 1), (Window(None, 10**15), 2)])
def test_a_window_is_one_of_each_recorder(tmp_path: Path, window: Window, traces: int) -> None:
    for number, name in enumerate((FIRST, SECOND)):
        recorded(tmp_path / "traces" / name, 3 + number, number)
    paths = (str(tmp_path / "traces"),)
    request = AuditRequest(paths, str(tmp_path / "out"), None, load_settings(None), window)
    assert len(audit_tasks(request, [])) == traces
