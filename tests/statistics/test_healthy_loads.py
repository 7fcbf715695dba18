"""Dumps of real brokers under load that nothing holds up: no answer is HELD UP, whatever was passed, and how."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from dispatch_audit.pipeline.statistics.diagnose import STANDARD_INPUT, Input, Result, diagnose

ROOT = Path(__file__).resolve().parents[1] / "data" / "healthy_loads"
FILES = sorted(ROOT.glob("*.txt"))
_DOCUMENT = re.compile(r"^(?P<time>\S+Z) \$ pulsar-admin topics \S+ \S+\n(?P<text>.*)\n", re.MULTILINE)
ONE, OTHER, BOTH = (0, 1), (2, 3), (0, 1, 2, 3)


class Document(NamedTuple):
    """One document of a file, with the line in front of it."""

    heading: str
    time: str
    text: str


def documents_of(file: Path) -> list[Document]:
    found = _DOCUMENT.finditer(file.read_text())
    return [Document(one[0].split("\n")[0], one["time"], one["text"]) for one in found]


def passed_as(kind: str, documents: list[Document], version: str) -> Result:
    """The answer for documents whose file names, or the text in front of them, have the time, or nothing has it."""
    if kind == "standard input":
        text = "\n".join(f"{one.heading}\n{one.text}" for one in documents)
        return diagnose([Input(STANDARD_INPUT, text, 2_000_000_000_000)], version)
    names = [re.sub(r"[:.-]", "", one.time) if kind == "with a time" else f"{at}" for at, one in enumerate(documents)]
    return diagnose([Input(f"{name}.json", one.text) for name, one in zip(names, documents, strict=True)], version)


@pytest.mark.parametrize("kind", ["with a time", "without", "standard input"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_nothing_is_held_up(file: Path, kind: str) -> None:
    documents, version = documents_of(file), file.stem.rsplit("-", 1)[1]
    # `topics stats` alone, with positions, and two moments.
    for chosen in ((0,), (2,), ONE, OTHER, (0, 2), BOTH):
        for diagnosis in passed_as(kind, [documents[at] for at in chosen], version).diagnoses:
            assert diagnosis.answer != "held_up", (chosen, diagnosis.headline)
            assert not diagnosis.is_alarm, (chosen, diagnosis.reasons)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_two_dumps_show_that_messages_flow_or_wait_for_their_time(file: Path) -> None:
    (diagnosis,) = passed_as("with a time", documents_of(file), file.stem.rsplit("-", 1)[1]).diagnoses
    assert diagnosis.answer == ("delivered" if file.stem.startswith("only-delayed") else "flowing")


def test_entries_that_are_delayed_were_not_sent_although_the_broker_sets_the_time_of_the_last_one() -> None:
    (diagnosis,) = passed_as("with a time", documents_of(ROOT / "only-delayed-4.2.4.txt")[:1], "4.2.4").diagnoses

    assert diagnosis.facts is not None
    assert diagnosis.facts.subscription.last_sent_ms
    assert diagnosis.facts.last_sent_ms == 0
