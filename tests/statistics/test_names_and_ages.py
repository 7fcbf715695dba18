"""What a file is called, and how old it is, changes no cause, no consumer and no line of an answer."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from dumps import LAST_MS, Json, consumer, internal, stats
from test_states_of_a_broker import ROOT, STATES

from dispatch_audit.pipeline.statistics.diagnose import STANDARD_INPUT, Input, Result, diagnose

RunCli = Callable[..., tuple[int, str, str]]
REPORTS = Path(__file__).resolve().parents[2] / "data" / "statistics"
PASTED = Path(__file__).resolve().parents[1] / "data" / "pasted"
REPORTED = sorted(path.name for path in REPORTS.iterdir())
AGES = {"fresh": 1_900_000_000_000, "old": 1_000_000_000_000, "none": None}


def said(result: Result) -> list[tuple[object, ...]]:
    """What must not depend on names: causes, consumers and lines."""
    return [
        (reason.name, reason.consumers, reason.shown, reason.title, reason.decide and "decide")
        for diagnosis in result.diagnoses
        for reason in diagnosis.reasons
    ]


def named(texts: Sequence[str], names: Sequence[str], age_ms: int | None = None) -> Result:
    return diagnose([Input(name, text, age_ms) for name, text in zip(names, texts, strict=True)])


def texts_of_state(name: str, *numbers: int) -> tuple[list[str], list[str]]:
    """The dumps of some moments, and names with the times at which they were taken."""
    taken = json.loads((ROOT / name / "expect.json").read_text())["taken_ms"]
    pairs = [(kind, number) for number in numbers for kind in ("stats", "stats-internal")]
    texts = [(ROOT / name / f"{kind}-{number}.json").read_text() for kind, number in pairs]
    return texts, [f"{kind}-{taken[number - 1]}.json" for kind, number in pairs]


@pytest.mark.parametrize("numbers", [(1,), (2,), (1, 2)])
@pytest.mark.parametrize("state", STATES)
def test_a_dump_without_a_time_is_about_the_same_cause_and_consumers(state: str, numbers: tuple[int, ...]) -> None:
    texts, timed = texts_of_state(state, *numbers)
    by_name = named(texts, timed)
    for names in (
        [f"{at}.txt" for at in range(len(texts))],
        ["x"] * len(texts),
        ["stats2", "zz", "a", "10"][: len(texts)],
    ):
        for age_ms in AGES.values():
            without = named(texts, names, age_ms)
            assert [one[:4] for one in said(without)] == [one[:4] for one in said(by_name)]
            assert not without.is_alarm or by_name.is_alarm
            assert {one.answer for one in without.diagnoses} <= {
                by_name.diagnoses[0].answer,
                "not_decidable",
                "flowing",
            }


@pytest.mark.parametrize("state", STATES)
def test_the_order_in_which_dumps_are_passed_changes_nothing(state: str) -> None:
    texts, _ = texts_of_state(state, 1, 2)
    names = [f"{at}.txt" for at in range(len(texts))]

    assert said(named(texts[::-1], names)) == said(named(texts, names))


@pytest.mark.parametrize("report", REPORTED)
def test_copies_and_touched_files_get_the_answer_of_the_original(report: str, run_cli: RunCli, tmp_path: Path) -> None:
    def answer(*files: Path) -> tuple[str, list[tuple[object, ...]]]:
        (diagnosis,) = json.loads(run_cli("diagnose", *files, "--format", "json")[1])["diagnoses"]
        return diagnosis["answer"], [(one["name"], one["shown"], one["certainty"]) for one in diagnosis["reasons"]]

    originals = sorted((REPORTS / report).iterdir())
    copies = [tmp_path / f"copy-{at}.txt" for at in range(len(originals))]
    for original, copy in zip(originals, copies, strict=True):
        shutil.copy(original, copy)
    fresh = answer(*copies)
    for copy in copies:
        os.utime(copy, (1_000_000_000, 1_000_000_000))

    assert answer(*copies) == fresh
    assert [one[:2] for one in answer(*originals)[1]] == [one[:2] for one in fresh[1]]


TEXTS = {
    **{name: sorted((REPORTS / name).iterdir()) for name in REPORTED},
    **{path.name: [path] for path in (PASTED / name for name in json.loads((PASTED / "expect.json").read_text()))},
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_report_is_about_the_same_cause_and_consumers_under_any_name(name: str) -> None:
    texts = [path.read_text() for path in TEXTS[name]]
    kinds = {
        "with a time": [f"{path.stem}-{2_000_000_000 + 10 * at}.json" for at, path in enumerate(TEXTS[name])],
        "without": [f"{at}.txt" for at in range(len(texts))],
        "standard input": [STANDARD_INPUT],
    }
    results = {kind: named(["\n".join(texts)] if len(names) == 1 else texts, names) for kind, names in kinds.items()}
    causes = {kind: [(one[0], one[1]) for one in said(result)][:1] for kind, result in results.items()}

    assert causes["with a time"] == causes["without"] == causes["standard input"]
    assert results["without"].log == results["standard input"].log


@pytest.mark.parametrize("names", [("stats.json", "stats2.json"), ("stats-1.json", "stats-2.json"), ("b", "a")])
def test_two_dumps_of_one_connection_are_moments_of_one_topic(names: tuple[str, str]) -> None:
    before = stats(consumer("c1", availablePermits=0, unackedMessages=9), consumer("c2"), msgInReplay=9, msgBacklog=60)
    after = stats(consumer("c1", msgOutCounter=600), consumer("c2"), msgBacklog=40)
    (diagnosis,) = named([json.dumps(before), json.dumps(after)], names).diagnoses

    assert diagnosis.answer == "flowing"
    assert diagnosis.facts is not None
    assert diagnosis.facts.movement is not None
    assert diagnosis.facts.movement.sent == 500


def test_a_copy_of_a_dump_is_no_second_moment() -> None:
    text = json.dumps(stats(consumer("c1", availablePermits=0, unackedMessages=9), msgBacklog=60))
    (diagnosis,) = named([text, text], ["stats.json", "copy.json"]).diagnoses

    assert len(diagnosis.history.moments) == 1
    assert not diagnosis.is_alarm


@pytest.mark.parametrize("other", [{"address": "/10.0.0.9:1"}, {"connectedSince": "2025-06-15T14:30:00Z"}])
def test_dumps_that_share_no_connection_are_two_topics_and_the_answer_asks(other: Json) -> None:
    first = stats(consumer("c1"), msgBacklog=60)
    second = stats(consumer("c1", msgOutCounter=600, **other), msgBacklog=40)
    result = named([json.dumps(first), json.dumps(second)], ["stats-1.json", "stats-2.json"])

    assert len(result.diagnoses) == 2
    assert "of one topic or of two" in result.questions[0]


def test_positions_go_to_the_topic_whose_ledgers_have_their_size() -> None:
    sizes = {"orders": 1000, "billing": 9000}
    texts = [json.dumps(stats(consumer(name), msgBacklog=9) | {"storageSize": size}) for name, size in sizes.items()]
    texts += [json.dumps(internal(read="3:90", waiting=True) | {"totalSize": 9000})]
    result = named(texts, ["1", "2", "3"])
    unread = {one.facts.consumers[0].name: one.facts.unread for one in result.diagnoses if one.facts is not None}

    assert unread == {"orders": None, "billing": 10}


def test_positions_that_may_be_of_two_topics_are_asked_for() -> None:
    texts = [json.dumps(stats(consumer(name), msgBacklog=9)) for name in ("orders", "billing")]
    result = named([*texts, json.dumps(internal(waiting=True))], ["1", "2", "positions.json"])

    assert any("positions.json can be of 2 topics" in question for question in result.questions)


def test_an_event_in_the_dump_proves_a_time_in_which_nothing_was_sent() -> None:
    # c2 connected 31 minutes after the last message was sent.
    later = consumer("c2", connectedSince="2025-06-15 15:37:40.000+0000", lastAckedTimestamp=0, lastConsumedTimestamp=0)
    held = consumer("c1", availablePermits=0, unackedMessages=30)
    (diagnosis,) = named([json.dumps(stats(held, later, msgInReplay=30, msgBacklog=60))], ["stats.json"]).diagnoses

    assert diagnosis.facts is not None
    assert diagnosis.facts.quiet_s == (1_750_001_860_000 - LAST_MS) / 1000
    assert diagnosis.answer == "held_up"
