"""`--topic`, `--subscription` and `--sample`: what an audit of a part of a trace says, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from embedded_commands import EmbeddedCommands

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "data" / "samples" / "heavy-churn-3.0.7"

pytestmark = pytest.mark.e2e


def test_a_sample_of_one_topic_is_audited_and_said(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ("--sample", "1/8", "--sample-salt", "c", "--topic", "*heavy_churn*", "--subscription", "ks")
    done = run_embedded("audit", SAMPLE, "--out", out, *options, "--quiet")
    assert done.returncode == 1, done.stderr
    assert "Hashes" in done.stdout
    assert "1/8 of them, by salt 'c'" in done.stdout
    assert "Only" in done.stdout
    assert "3 findings of single_holder match known bugs" in " ".join(done.stdout.split())
    assert "NOT PROVABLE" in done.stdout
    (run,) = DeltaTable(out / "runs").to_pyarrow_table().to_pylist()
    assert (run["sample"], run["sample_salt"]) == ("1/8", "c")
    assert json.loads(run["settings"])["choice"]["topics"] == ["*heavy_churn*"]
    finding = DeltaTable(out / "violations").to_pyarrow_table().to_pylist()[0]["finding_id"]
    explained = run_embedded("explain", out, "--violation", finding)
    assert explained.returncode == 0, explained.stderr


def test_a_trace_without_the_topic_or_the_hashes_is_one_line(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    done = run_embedded("audit", SAMPLE, "--out", tmp_path / "out", "--topic", "orders", "--quiet")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert "has no row of topic orders" in done.stderr
    shutil.copytree(SAMPLE, tmp_path / "sampled")
    manifest = json.loads((SAMPLE / "trace.json").read_text()) | {"sample": {"share": "1/64", "salt": "s"}}
    (tmp_path / "sampled" / "trace.json").write_text(json.dumps(manifest))
    for options in (("--sample", "1/8"), ("--sample", "1/128", "--sample-salt", "other")):
        done = run_embedded("audit", tmp_path / "sampled", "--out", tmp_path / "out", *options, "--quiet")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "the trace has 1/64 of the hashes" in done.stderr
    done = run_embedded("audit", SAMPLE, "--out", tmp_path / "out", "--sample", "1/0", "--quiet")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
