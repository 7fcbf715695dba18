"""Tables whose files or logs are missing or cut: one line that names the table, not a fault of the audit."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from embedded_commands import EmbeddedCommands
from samples import SAMPLES

from dispatch_audit.jobs.api.audit import read_audit
from dispatch_audit.pipeline.errors import UsageError

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def tables(run_embedded: EmbeddedCommands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "tables"
    done = run_embedded("audit", SAMPLES / "heavy-churn-3.0.7", "--out", out, "--fail-on", "never", "--quiet")
    assert done.returncode == 0, done.stderr
    return out


def _file(table: Path) -> Path:
    return min(table.rglob("*.parquet"))


def _last_commit(table: Path) -> Path:
    return max((table / "_delta_log").glob("*.json"))


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("name", ["violations", "coverage"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda table: _file(table).unlink(),
        lambda table: _cut(_file(table)),
        lambda table: _cut(_last_commit(table)),
        lambda table: shutil.rmtree(table / "_delta_log"),
        shutil.rmtree,
    ],
    ids=["a file is missing", "a file is cut", "a commit is cut", "the log is missing", "the table is missing"],
)
def test_a_damaged_table_is_named_on_one_line(
    name: str, damage: Callable[[Path], None], tables: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "tables"
    shutil.copytree(tables, copy)
    assert read_audit(copy).summary.runs
    damage(copy / name)
    with pytest.raises(UsageError) as raised:
        read_audit(copy)
    said = str(raised.value)
    assert name in said
    assert str(copy) in said
    assert "<unknown>" not in said
    assert len(said) < 1_500
