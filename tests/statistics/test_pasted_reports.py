"""What people pasted beside public reports: the answer says what is right, and nothing that is wrong."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "data" / "pasted"
EXPECTED = json.loads((ROOT / "expect.json").read_text())
RunCli = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("number", ["23429", "24418"])
def test_pairs_without_a_time_name_the_consumers(number: str, run_cli: RunCli) -> None:
    files = (ROOT / f"stats-{number}.json", ROOT / f"stats-internal-{number}.json")
    code, out, _ = run_cli("diagnose", *files, "--format", "json")
    (diagnosis,) = json.loads(out)["diagnoses"]

    assert (code, diagnosis["answer"], diagnosis["certainty"]) == (0, "not_decidable", "compatible")
    assert diagnosis["reasons"][0]["consumers"] == {"23429": ["c1"], "24418": ["c1", "c2"]}[number]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_text_is_answered_as_its_report_was(name: str, run_cli: RunCli) -> None:
    expected = EXPECTED[name]
    version = ("--version", expected["version"]) if "version" in expected else ()
    out = " ".join("".join(run_cli("diagnose", ROOT / name, *version)[1:]).split())

    assert all(" ".join(words.split()) in out for words in expected["must_say"]), out
    assert not any(words in out for words in expected["must_not_say"]), out
