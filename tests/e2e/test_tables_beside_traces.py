"""Tables of an audit and the logs of its trace do not get into each other's folder."""

import shutil
from pathlib import Path

import pytest
from embedded_commands import EmbeddedCommands
from samples import SAMPLES

from dispatch_audit.pipeline.tables.create import open_tables
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.trace.own_tables import is_own_table

pytestmark = pytest.mark.e2e


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "trace"
    shutil.copytree(SAMPLES / "heavy-churn-3.0.7", folder)
    return folder


@pytest.mark.parametrize(
    ("out", "where"),
    [
        ("home/trace", "is the folder of the trace"),
        ("home/trace/tables", "lies in the folder of the trace "),
        ("home", "has the trace "),
        ("/", "has the trace "),
    ],
    ids=["equal", "below", "above", "root"],
)
def test_a_target_in_or_around_a_trace_is_refused(
    run_embedded: EmbeddedCommands, trace: Path, tmp_path: Path, out: str, where: str
) -> None:
    before = sorted(trace.parent.rglob("*"))
    done = run_embedded("audit", trace, "--out", tmp_path / out)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"dispatch-audit: error: --out {tmp_path / out} {where}")
    assert done.stderr.endswith(f"; name another folder, such as --out {trace}-audit\n")
    assert sorted(trace.parent.rglob("*")) == before


def test_a_conversion_into_or_around_a_trace_is_refused(
    run_embedded: EmbeddedCommands, trace: Path, tmp_path: Path
) -> None:
    before = sorted(trace.parent.rglob("*"))
    for to in (trace, trace / "events", trace.parent):
        done = run_embedded("convert", trace, "--to", to)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"dispatch-audit: error: --to {to} ")
        assert done.stderr.endswith(f"; name another folder, such as --to {trace}-converted\n")
    assert sorted(trace.parent.rglob("*")) == before


def test_a_target_behind_a_link_into_a_trace_is_refused(
    run_embedded: EmbeddedCommands, trace: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(trace)
    done = run_embedded("audit", trace, "--out", tmp_path / "link" / "tables")
    assert done.returncode == 2
    assert "lies in the folder of the trace" in done.stderr


# An older version wrote tables there, and spoilt the trace.
def test_tables_in_the_folder_of_a_trace_are_no_logs(
    run_embedded: EmbeddedCommands, trace: Path, tmp_path: Path
) -> None:
    validate = ("validate", trace, "--format", "json")
    clean = run_embedded(*validate)
    run_embedded("audit", trace, "--out", tmp_path / "tables")
    (tmp_path / "tables" / "consumers").rename(trace / "consumers")
    spoilt = run_embedded(*validate)
    assert (spoilt.returncode, spoilt.stdout) == (0, clean.stdout)


@pytest.mark.parametrize(
    ("name", "is_there"), [("", "has tables of an audit"), ("consumers", "is a table of an audit")]
)
def test_tables_are_not_audited(run_embedded: EmbeddedCommands, tmp_path: Path, name: str, is_there: str) -> None:
    tables = tmp_path / "tables"
    open_tables(None, parse_target(str(tables)), "0123456789abcdef")
    done = run_embedded("validate", tables / name, "--profile", "pulsar-4.0.7")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"dispatch-audit: error: {tables / name} {is_there}")


def test_every_table_is_recognised(tmp_path: Path) -> None:
    open_tables(None, parse_target(str(tmp_path)), "0123456789abcdef")
    assert [name for name in TABLES if not is_own_table(tmp_path / name)] == []
    assert not is_own_table(tmp_path)
