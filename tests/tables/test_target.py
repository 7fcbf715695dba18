from pathlib import Path

import pytest

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.tables.target import parse_target


@pytest.mark.parametrize(
    ("text", "location", "named"),
    [
        ("main.audit", "main.audit", True),
        ("_a.b_2", "_a.b_2", True),
        ("s3a://bucket/audit/", "s3a://bucket/audit", False),
        ("dbfs:/audit", "dbfs:/audit", False),
        ("/tmp/a.b", "/tmp/a.b", False),
        ("./main.audit", "{here}/main.audit", False),
        ("report", "{here}/report", False),
        ("v1.2", "{here}/v1.2", False),
        ("a.b.c", "{here}/a.b.c", False),
    ],
)
def test_what_a_target_means(
    text: str, location: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = parse_target(text)
    assert (target.location, target.named) == (location.format(here=tmp_path), named)


def test_a_folder_wins_over_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.audit").mkdir()
    assert not parse_target("main.audit").named


def test_identifiers_are_quoted() -> None:
    assert parse_target("main.audit").identifier("runs") == "`main`.`audit`.`runs`"
    assert parse_target("/tmp/a`b").identifier("runs") == "delta.`/tmp/a``b/runs`"


def test_a_file_is_no_target(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for text in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="file is a file, but the tables need a folder; choose another --out"):
            parse_target(str(text))


def test_an_empty_target_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        parse_target(" ")


@pytest.mark.parametrize("name", ["a[1]", "a|b", "a^b", "a%20b"])
def test_a_path_that_delta_rs_does_not_open_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"tables cannot be below .* because of"):
        parse_target(str(tmp_path / name))
    assert parse_target(str(tmp_path / "it's `100%` #1 {x} ü")).local


def test_a_path_of_databricks_is_left_to_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_target(str(tmp_path)).local
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    assert not parse_target(str(tmp_path)).local
