"""The baseline: which findings it accepts, and what its file says."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.run.baseline import Baseline, read_baseline

ROW: dict[str, Any] = {
    "finding_id": "a",
    "rule": "single_holder",
    "severity": "known_bug",
    "topic": "orders-0",
    "subscription": "workers",
    "sticky_hash": 4711,
    "ledger_id": 7,
    "entry_id": 120,
    "consumer": 2,
    "consumer_name": "blue",
    "other_consumer": 1,
    "other_consumer_name": None,
    "seq": 20,
}


def row(finding_id: str, **changed: Any) -> dict[str, Any]:
    return {**ROW, "finding_id": finding_id, **changed}


def accepting(*rows: dict[str, Any], path: Path = Path("baseline.json"), trace: str = "night") -> Baseline:
    return Baseline(path).rewritten({trace: rows})


def ids(baseline: Baseline, rows: Sequence[dict[str, Any]], trace: str = "night") -> set[str]:
    return set(baseline.matched(trace, rows).ids)


def test_what_a_recorder_or_a_later_audit_numbers_anew_is_the_same_finding() -> None:
    assert ids(accepting(ROW), [row("b", seq=99, consumer=31)]) == {"b"}


@pytest.mark.parametrize(
    "changed",
    [
        {"rule": "ownership"},
        {"topic": "orders-1"},
        {"subscription": "others"},
        {"sticky_hash": 4712},
        {"entry_id": 121},
        {"consumer_name": "green"},
        {"other_consumer": 3},
    ],
)
def test_another_finding_is_not_accepted(changed: dict[str, Any]) -> None:
    assert ids(accepting(ROW), [row("b", **changed)]) == set()


def test_a_finding_of_another_trace_is_not_accepted() -> None:
    assert ids(accepting(ROW), [ROW], trace="day") == set()


def test_of_equal_findings_as_many_are_accepted_as_there_were() -> None:
    equal = [row(name, seq=seq) for seq, name in enumerate("abc")]
    baseline = accepting(*equal[:2])
    assert [finding.count for finding in baseline.findings] == [2]
    assert ids(baseline, equal[::-1]) == {"a", "b"}


@pytest.mark.parametrize(
    ("severity", "accepted"), [("violation", False), ("known_bug", True), ("not_provable", True), ("permitted", False)]
)
def test_a_finding_may_get_milder_and_not_worse(severity: str, accepted: bool) -> None:
    assert ids(accepting(ROW), [row("b", severity=severity)]) == ({"b"} if accepted else set())


def test_a_milder_finding_leaves_the_place_of_a_worse_one() -> None:
    violation, doubt = row("v", severity="violation"), row("n", severity="not_provable")
    assert ids(accepting(violation, doubt), [doubt, violation]) == {"v", "n"}


def test_what_is_not_found_any_more_is_stale() -> None:
    twice, other = [row("a"), row("b", seq=21)], row("c", entry_id=7)
    baseline = accepting(*twice, other)
    assert baseline.matched("night", [*twice, other]).stale == ()
    (stale, gone) = sorted(baseline.matched("night", twice[:1]).stale, key=str)
    assert str(stale) == "single_holder in night, orders-0, workers, entry 7:120, to blue"
    assert str(gone) == "single_holder in night, orders-0, workers, entry 7:7, to blue"
    # A permitted finding needs no one to accept it.
    assert len(baseline.matched("night", [*twice, {**other, "severity": "permitted"}]).stale) == 1


def test_a_trace_is_named_from_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "traces" / "night").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    written = accepting(ROW, path=tmp_path / "baseline.json", trace="traces/night")
    written.write()
    monkeypatch.chdir(tmp_path / "traces")
    assert ids(read_baseline(Path("../baseline.json")), [ROW]) == {"a"}
    assert ids(read_baseline(tmp_path / "baseline.json"), [ROW], str(tmp_path / "traces" / "night")) == {"a"}


def test_a_table_of_a_catalog_keeps_its_name() -> None:
    for name in ("main.traces.night", "s3://bucket/night"):
        (finding,) = accepting(ROW, trace=name).findings
        assert finding.trace == name


def test_a_file_has_a_line_for_each_finding_in_an_order_of_its_own(tmp_path: Path) -> None:
    rows = [row("b", entry_id=9), row("a", entry_id=10)]
    texts = []
    for order in (rows, rows[::-1]):
        baseline = accepting(*order, path=tmp_path / "baseline.json")
        baseline.write()
        assert read_baseline(baseline.path) == baseline
        texts.append(baseline.path.read_text())
    assert texts[0] == texts[1]
    assert sum('"entry": "7:' in line for line in texts[0].splitlines()) == 2
    assert all("finding_id" not in text and "seq" not in text for text in texts)


def test_writing_anew_keeps_what_is_accepted_of_other_traces() -> None:
    both = accepting(ROW).rewritten({"day": [ROW]})
    anew = both.rewritten({"night": []})
    assert [finding.trace for finding in both.findings] == ["day", "night"]
    assert [finding.trace for finding in anew.findings] == ["day"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read the baseline"),
        ("{", "is no JSON"),
        ('{"findings": []}', "baseline_format is missing"),
        ('{"baseline_format": 2, "findings": []}', "baseline_format is 2, not 1"),
        ('{"baseline_format": 1, "findings": [{"trace": "n"}]}', "findings.0.rule is missing"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(tmp_path: Path, text: str | None, said: str) -> None:
    path = tmp_path / "baseline.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=said) as refused:
        read_baseline(path)
    assert (str(path) in str(refused.value), "--write-baseline" in refused.value.way_out) == (True, True)


def test_an_unnamed_consumer_is_known_by_its_number() -> None:
    (finding,) = accepting(row("a", consumer_name=None)).findings
    assert json.loads(finding.model_dump_json())["consumer"] == 2
