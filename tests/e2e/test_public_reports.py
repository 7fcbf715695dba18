"""Traces made from public reports, each with what a right audit says of it (`expect.json` beside them)."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from embedded_commands import EmbeddedCommands
from public_reports import DATA, EXPECTED, judged, wrong_rules

# What a command knows besides the rows: how many kinds of rows the whole trace has, and that a trace proves nothing.
BY_COMMAND_ONLY: Final = (
    "reports/no-keys-3.0.7",
    "reports/recorder-writes_no_acks",
    "reports/seek-no_row-resets_written",
)
TOLD: Final = ("text", "notext", "progress")


def _in_gate() -> set[str]:
    """One trace for each text that a report has or lacks, and what only a command knows."""
    chosen = {str([expected.get(what) for what in TOLD]): name for name, expected in reversed(EXPECTED.items())}
    return {*chosen.values(), *BY_COMMAND_ONLY}


def _wrong(expected: dict[str, Any], report: dict[str, Any], said: str) -> list[str]:
    """What an audit says otherwise than expected."""
    wrong = wrong_rules(expected, report["verdict"], report["rules"])
    progress = report["progress"]
    allowed = expected.get("progress", [progress])
    if progress not in ([allowed] if isinstance(allowed, str) else allowed):
        wrong.append(f"progress is {progress}")
    if expected.get("text", "").lower() not in said.lower():
        wrong.append(f"it lacks {expected['text']!r}")
    if expected.get("notext", "\0") in said:
        wrong.append(f"it says {expected['notext']!r}")
    return wrong


@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in BY_COMMAND_ONLY])
def test_rules_find_what_is_right_of_a_public_report(name: str) -> None:
    expected = EXPECTED[name]
    found = judged(name)
    # A gap may be one of words only; what it is shows in an audit by command.
    wrong = wrong_rules(expected, found.verdict, found.rules)
    assert wrong == [] or "known_gap" in expected


# One audit takes half a second.
@pytest.mark.e2e
@pytest.mark.heavy
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in _in_gate() else [pytest.mark.slow]) for name in EXPECTED]
)
def test_audit_says_what_is_right_of_a_public_report(name: str, run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    as_json, as_text = tmp_path / "report.json", tmp_path / "report.txt"
    reports = ["--report", f"json={as_json}", "--report", f"text={as_text}"]
    command = ["audit", DATA / name, "--out", tmp_path / "out", "--fail-on", "never", "--findings", 20]
    done = run_embedded(*command, *reports)
    assert done.returncode == 0, done.stderr
    said = as_json.read_text()
    wrong = _wrong(EXPECTED[name], json.loads(said), as_text.read_text() + said)
    # A gap that is closed has to leave expect.json.
    assert bool(wrong) == ("known_gap" in EXPECTED[name]), wrong


def test_what_is_chosen_for_the_gate_is_there() -> None:
    assert _in_gate() <= EXPECTED.keys()
