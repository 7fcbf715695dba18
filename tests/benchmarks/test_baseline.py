"""Regressions against a baseline, on invented numbers, and what the command line makes of them."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks import side_by_side
from benchmarks.baseline import Baseline, Expected, load_baseline, save_baseline
from benchmarks.figures import Figure, Spread
from benchmarks.plan import Name
from dispatch_audit.pipeline.errors import DispatchAuditError, UsageError

STORED = Baseline(
    conditions={"events": 1000, "source": "parquet"},
    ratios={"a": Expected(ratio=2.0, tolerance=0.25), "b": Expected(ratio=1.2, tolerance=0.0)},
)


def test_what_is_within_the_tolerance_or_better_is_no_regression() -> None:
    assert STORED.regressions({"a": 2.5, "b": 1.2, "unknown": 99}) == []
    assert STORED.regressions({"a": 0.1, "b": 0.1}) == []


def test_each_regression_has_a_line() -> None:
    assert STORED.regressions({"a": 2.51, "b": 1.21}) == [
        "a: 2.51, was 2.00 and may be 2.50",
        "b: 1.21, was 1.20 and may be 1.20",
    ]


def test_what_was_not_measured_is_not_passed() -> None:
    assert STORED.regressions({"a": 2.0}) == ["b: not measured, was 1.20"]


def test_a_saved_baseline_allows_what_it_was_made_of(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    save_baseline(file, {"events": 5, "order": "time"}, {"a": 1.23456, "b": 3})
    baseline = load_baseline(file, {"events": 5, "order": "time", "rounds": 9})
    assert baseline.regressions({"a": 1.23456, "b": 3}) == []
    assert baseline.regressions({"a": 1.6, "b": 3}) != []


def test_other_conditions_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "baseline.json"
    save_baseline(file, {"events": 5, "order": "time"}, {"a": 1})
    with pytest.raises(UsageError, match=r"run with --events 5$"):
        load_baseline(file, {"events": 6, "order": "time"})


@pytest.mark.parametrize(
    ("text", "words"), [(None, "cannot read"), ("{", "is not a baseline"), ('{"a": 1}', "not a baseline")]
)
def test_a_file_that_is_no_baseline(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "baseline.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=words):
        load_baseline(file, {})


def invented(audit_wall_s: float) -> tuple[int, dict[Name, dict[Figure, Spread]]]:
    audit: dict[Figure, Spread] = {"wall_s": Spread(audit_wall_s, 1, 99), "cpu_s": Spread(8, 8, 8)}
    return 1007, {"audit": audit, "own_floor": {"wall_s": Spread(4, 4, 4), "cpu_s": Spread(4, 4, 4)}}


def run(monkeypatch: pytest.MonkeyPatch, audit_wall_s: float, *options: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command line with invented measurements."""
    monkeypatch.setattr(side_by_side, "_measured", lambda *_: invented(audit_wall_s))
    app = typer.Typer()
    app.command()(side_by_side.main)
    done = CliRunner().invoke(app, ["--events", "1000", *options])
    return done.exit_code, done.stdout, done.stderr


def test_check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    where = ("--baseline", str(tmp_path / "baseline.json"))
    assert run(monkeypatch, 10, "--save-baseline", *where)[0] == 0
    assert run(monkeypatch, 12, "--check", *where)[::2] == (0, "")
    code, _, errors = run(monkeypatch, 13, "--check", *where)
    assert code == 1
    assert errors == ("side_by_side: regression: audit_over_own_floor_wall: 3.25, was 2.50 and may be 3.12\n")
    code, out, errors = run(monkeypatch, 10, "--check", "--events", "2000", *where)
    assert (code, out) == (2, "")
    assert errors.startswith("side_by_side: error: ")


def test_json_is_one_object_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run(monkeypatch, 10, "--json", "--rounds", "2")
    reported = json.loads(out)
    assert code == 0
    assert (reported["events"], reported["source"], reported["rounds"]) == (1007, "parquet", 2)
    assert reported["audit"] == {"wall_s": 10, "cpu_s": 8, "spread": {"wall_s": [1, 99], "cpu_s": [8, 8]}}
    assert (reported["audit_over_own_floor_wall"], reported["audit_over_own_floor_cpu"]) == (2.5, 2)


def test_a_failure_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise DispatchAuditError("polars failed")

    monkeypatch.setattr(side_by_side, "_measured", fail)
    app = typer.Typer()
    app.command()(side_by_side.main)
    done = CliRunner().invoke(app, [])
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", "side_by_side: error: polars failed\n")
