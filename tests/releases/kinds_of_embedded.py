"""What the embedded engine makes of the sample of `every_kind`, and the comparison of a release with it."""

import json
import shutil
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

import every_kind
from deltalake import DeltaTable
from embedded_commands import EmbeddedCommands

from dispatch_audit.pipeline.tables.schemas import TABLES

# The key of a run and that of its chain are made of the paths of its trace. The sets of a checkpoint are written in no
# order; what was read from it are the rows of the second window.
_OF_PATHS = {"run_key", "inputs", "chain"}
_CIRCUMSTANCES = {"started_at", "started_at_us", "ended_at", "ended_at_us", "stages", "engine"}
_OF_CHECKPOINTS = {"payload"}


def audit_embedded(run: EmbeddedCommands, folder: Path) -> Path:
    """Audits the sample as `run_every_kind` does; the working directory is `folder`, which is returned."""
    shutil.copytree(every_kind.SAMPLE, folder / every_kind.RECORDED)
    _done(run, "audit", every_kind.RECORDED, "--out", every_kind.TABLES)
    _done(run, "convert", every_kind.RECORDED, "--to", "logs")
    (folder / "logs" / "trace.json").unlink()
    windows = ("audit", "logs", "--profile", every_kind.PROFILE, "--out", every_kind.CATALOG)
    _done(run, *windows, "--to", every_kind.CUT)
    _done(run, *windows, "--from", every_kind.CUT)
    return folder


def assert_equal_rows(found: Path, embedded: Path) -> None:
    """Compares what a release wrote with what the embedded engine did."""
    for name in TABLES:
        assert _rows(found / every_kind.TABLES / name) == _rows(embedded / every_kind.TABLES / name), name
        in_catalog, expected = (_rows(at / every_kind.CATALOG / name, _OF_CHECKPOINTS) for at in (found, embedded))
        assert in_catalog == expected, name
    converted, validated = json.loads((found / every_kind.REPORTS).read_text())
    assert converted["events_in"] == converted["events_converted"] == 20_371
    (trace,) = validated["traces"]
    assert (trace["events"], trace["quarantined"], trace["gaps"]) == (20_371, 0, 0)


def _rows(table: Path, more: Collection[str] = ()) -> Counter[str]:
    rows: list[dict[str, Any]] = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    aside = {*_OF_PATHS, *_CIRCUMSTANCES, *more}
    return Counter(repr({name: row[name] for name in sorted(row) if name not in aside}) for row in rows)


def _done(run: EmbeddedCommands, *arguments: object) -> None:
    done = run(*arguments, "--quiet")
    assert done.returncode < 2, done.stderr
