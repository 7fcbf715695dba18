"""Dumps of a real broker in known states: the answer names who holds messages up, and is no alarm where nobody does."""

import json
from pathlib import Path
from typing import Any

import pytest

from dispatch_audit.pipeline.statistics.diagnose import Input, diagnose
from dispatch_audit.pipeline.statistics.diagnosis import Diagnosis

ROOT = Path(__file__).resolve().parents[1] / "data" / "statistics"
STATES = sorted(path.parent.name for path in ROOT.glob("*/expect.json"))
SIGNS = {
    "look_ahead_limit": "look_ahead_limit",
    "draining": "draining_holds_others",
    "unacked_limit_consumer": "consumer_limit",
    "unacked_limit_subscription": "subscription_limit",
    "no_permits": "permits_not_returned",
    "no_owner": "hash_gap",
}
HEALTHY = [name for name in STATES if not json.loads((ROOT / name / "expect.json").read_text())["cause"]]
SICK = [name for name in STATES if name not in HEALTHY]


def diagnosed(name: str, *numbers: int) -> tuple[Diagnosis, dict[str, Any]]:
    """The diagnosis of moments of a state, whose files have the times at which they were taken, and what is right."""
    expected = json.loads((ROOT / name / "expect.json").read_text())
    inputs = [
        Input(f"{kind}-{expected['taken_ms'][number - 1]}.json", (ROOT / name / f"{kind}-{number}.json").read_text())
        for number in numbers
        for kind in ("stats", "stats-internal")
    ]
    (diagnosis,) = diagnose(inputs, expected["pulsar_version"]).diagnoses
    return diagnosis, expected


def found_in(diagnosis: Diagnosis) -> set[str]:
    return {reason.name for reason in diagnosis.reasons}


@pytest.mark.parametrize("name", SICK)
def test_two_dumps_prove_what_holds_messages_up_and_who(name: str) -> None:
    diagnosis, expected = diagnosed(name, 1, 2)
    first = diagnosis.reasons[0]

    assert diagnosis.answer == "held_up"
    assert (first.name, first.certainty) == (SIGNS[expected["cause"]], "proved")
    assert list(first.consumers) == expected["held_up_by"]
    assert found_in(diagnosis).isdisjoint(SIGNS[cause] for cause in expected["never"])


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", SICK)
def test_one_dump_names_the_same_cause(name: str, number: int) -> None:
    diagnosis, expected = diagnosed(name, number)
    first = diagnosis.reasons[0]

    assert first.name == SIGNS[expected["cause"]]
    assert list(first.consumers) == expected["held_up_by"]
    assert first.certainty == "proved" or first.decide


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", STATES)
def test_topics_stats_alone_is_right_or_says_what_decides(name: str, number: int) -> None:
    expected = json.loads((ROOT / name / "expect.json").read_text())
    text = (ROOT / name / f"stats-{number}.json").read_text()
    (diagnosis,) = diagnose([Input(f"stats-{expected['taken_ms'][number - 1]}.json", text)], "4.2.4").diagnoses
    right = SIGNS.get(expected["cause"])

    assert any("stats-internal" in lack for lack in diagnosis.lacks)
    if right is None:
        assert not diagnosis.is_alarm
    elif diagnosis.answer in ("held_up", "not_decidable"):
        assert diagnosis.reasons[0].name == right
        assert list(diagnosis.reasons[0].consumers) == expected["held_up_by"]
        assert diagnosis.answer == "held_up" or diagnosis.reasons[0].decide
    else:
        # Something was sent in the last seconds, and who waits is named beside it.
        assert (diagnosis.answer, expected["flows"]) == ("flowing", "some")
        assert right in found_in(diagnosis)


@pytest.mark.parametrize("numbers", [(1,), (2,), (1, 2)])
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_subscription_raises_no_alarm(name: str, numbers: tuple[int, ...]) -> None:
    diagnosis, _ = diagnosed(name, *numbers)

    assert not diagnosis.is_alarm
    assert "proved" not in {reason.certainty for reason in diagnosis.reasons}


@pytest.mark.parametrize("name", STATES)
def test_two_dumps_show_whether_messages_flow(name: str) -> None:
    diagnosis, expected = diagnosed(name, 1, 2)
    assert diagnosis.facts is not None
    assert diagnosis.facts.flows == (expected["flows"] in ("all", "some"))
