"""Traces made from public reports, each with what a right audit says of it (`expect.json` beside them).

`reports` has bugs of brokers, `reports4` and `reports5` what clients, filters, limits and restarts do.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from embedded_commands import EmbeddedCommands

DATA: Final = Path(__file__).resolve().parents[1] / "data"
EXPECTED: Final[dict[str, dict[str, Any]]] = {
    f"{folder}/{name}": expected
    for folder in ("reports", "reports4", "reports5")
    for name, expected in json.loads((DATA / folder / "expect.json").read_text()).items()
}

pytestmark = pytest.mark.e2e


def _counted(rules: dict[str, dict[str, int]], rule: str, *severities: str) -> int:
    return sum(rules.get(rule, {}).get(severity) or 0 for severity in severities)


def _wrong(expected: dict[str, Any], report: dict[str, Any], text: str) -> list[str]:
    """What an audit says otherwise than expected."""
    rules, said = report["rules"], text
    wrong = [f"{rule} is missing" for rule, of in expected.get("want", {}).items() if not _counted(rules, rule, *of)]
    wrong += [f"{rule} is false" for rule in expected.get("no", []) if _counted(rules, rule, "violation", "known_bug")]
    verdict, progress = report["verdict"], report["progress"]
    if verdict != expected.get("verdict", verdict) or verdict not in expected.get("any_of", [verdict]):
        wrong.append(f"the verdict is {verdict}")
    allowed = expected.get("progress", [progress])
    if progress not in ([allowed] if isinstance(allowed, str) else allowed):
        wrong.append(f"progress is {progress}")
    if expected.get("text", "").lower() not in said.lower():
        wrong.append(f"it lacks {expected['text']!r}")
    if expected.get("notext", "\0") in said:
        wrong.append(f"it says {expected['notext']!r}")
    return wrong


# One audit takes about a second.
@pytest.mark.heavy
@pytest.mark.parametrize("name", EXPECTED)
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
