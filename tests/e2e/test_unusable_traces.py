"""A trace that cannot carry a verdict leaves the others audited."""

import json
import shutil
from pathlib import Path

import pytest
from embedded_commands import EmbeddedCommands
from samples import SAMPLES

from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of

pytestmark = pytest.mark.e2e

CHURN = SAMPLES / "heavy-churn-3.0.7"


def garbage(folder: Path) -> Path:
    """A trace of rows that are none."""
    folder.mkdir(parents=True)
    (folder / "trace.json").write_text('{"trace_format": 1, "pulsar_version": "4.0.8"}')
    (folder / "events.jsonl").write_text("nothing\n" * 100)
    return folder


def without_manifest_fields(folder: Path) -> Path:
    """A trace whose `trace.json` says nothing."""
    shutil.copytree(CHURN, folder)
    (folder / "trace.json").write_text("{}")
    return folder


def audited(out: Path) -> list[str]:
    return [run["inputs"][0] for run in tables_of(None, parse_target(str(out))).query("runs", "inputs")]


def test_the_others_are_audited_and_the_unusable_ones_named(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    bad = [garbage(tmp_path / "garbage"), without_manifest_fields(tmp_path / "unknown")]
    out = tmp_path / "out"
    done = run_embedded("audit", bad[0], CHURN, bad[1], "--out", out, "--format", "json")
    assert done.returncode == 3
    (trace,) = json.loads(done.stdout)["traces"]
    assert trace["order"] == "known_bug"
    assert [Path(path).name for path in audited(out)] == [CHURN.name]
    errors = done.stderr.splitlines()
    assert [line.startswith("dispatch-audit: error: ") for line in errors] == [True, True]
    assert all(any(str(folder) in line for line in errors) for folder in bad)
    assert not (out / "_replay").exists()


def test_a_folder_of_traces_is_audited_without_the_unusable_one(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    garbage(tmp_path / "traces" / "a")
    without_manifest_fields(tmp_path / "traces" / "b")
    shutil.copytree(CHURN, tmp_path / "traces" / "c")
    done = run_embedded("audit", tmp_path / "traces", "--out", tmp_path / "out", "--fail-on", "never")
    assert done.returncode == 3
    assert [Path(path).name for path in audited(tmp_path / "out")] == ["c"]


def test_nothing_is_written_if_none_is_usable(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    bad = [garbage(tmp_path / "first"), garbage(tmp_path / "second")]
    done = run_embedded("audit", *bad, "--out", tmp_path / "out")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert all(str(folder) in done.stderr for folder in bad)
    assert audited(tmp_path / "out") == []
