"""Traces made from public bug reports, each with what a right audit says of it (tests/data/reports/expect.json)."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from embedded_commands import EmbeddedCommands

REPORTS: Final = Path(__file__).resolve().parents[1] / "data" / "reports"
EXPECTED: Final[dict[str, dict[str, Any]]] = json.loads((REPORTS / "expect.json").read_text())

pytestmark = pytest.mark.e2e


def _counted(rules: dict[str, dict[str, int]], rule: str, *severities: str) -> int:
    return sum(rules.get(rule, {}).get(severity) or 0 for severity in severities)


@pytest.mark.parametrize("name", EXPECTED)
def test_audit_says_what_is_right_of_a_public_report(name: str, run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    as_json, as_text = tmp_path / "report.json", tmp_path / "report.txt"
    reports = ["--report", f"json={as_json}", "--report", f"text={as_text}"]
    command = ["audit", REPORTS / name, "--out", tmp_path / "out", "--fail-on", "never", "--findings", 20]
    done = run_embedded(*command, *reports)
    assert done.returncode == 0, done.stderr
    report = json.loads(as_json.read_text())
    text = as_text.read_text()
    rules = report["rules"]
    expected = EXPECTED[name]
    missing = {rule: of for rule, of in expected.get("want", {}).items() if not _counted(rules, rule, *of)}
    false = {rule: n for rule in expected.get("no", []) if (n := _counted(rules, rule, "violation", "known_bug"))}
    assert (missing, false) == ({}, {})
    assert report["verdict"] == expected.get("verdict", report["verdict"])
    assert expected.get("text", "").lower() in (text + as_json.read_text()).lower()
    assert expected.get("notext", "\0") not in text + as_json.read_text()
