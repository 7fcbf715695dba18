"""A finding is worded in parts, and each part stands in a column of its own; the sentence is made of them."""

import pytest
from local_replay import LOW, Log, replayed

from dispatch_audit.pipeline.contract.known_bugs import catalogue, remedy, titles
from dispatch_audit.pipeline.contract.release import Release
from dispatch_audit.pipeline.contract.rules import RULES
from dispatch_audit.pipeline.groups.columns import Columns
from dispatch_audit.pipeline.groups.findings_rows import violations
from dispatch_audit.pipeline.replay.verdicts.dispatch_findings import dispatch_findings
from dispatch_audit.pipeline.replay.verdicts.finding import ALL, FindingText, JudgedFinding, RuleFindings
from dispatch_audit.pipeline.tables.schemas import VIOLATIONS

EXPLANATIONS = {
    "1:1 went to c1": FindingText("1:1 went to c1"),
    "1:1 went to c1, but c2 held it": FindingText("1:1 went to c1", "c2 held it", "but"),
    "1:1 went to c1, after 1:2 had gone; a; b": FindingText("1:1 went to c1", "1:2 had gone", "after", ("a", "b")),
    "1:1 went to c1; known bug F2: x. Upgrade. Wait.": FindingText(
        "1:1 went to c1", why=("known bug F2: x",), remedy="Upgrade. Wait."
    ),
}


@pytest.mark.parametrize("sentence", EXPLANATIONS)
def test_the_sentence_has_every_part_in_its_place(sentence: str) -> None:
    assert EXPLANATIONS[sentence].sentence == sentence


def columns(*explanations: FindingText) -> Columns:
    findings = [
        JudgedFinding(severity="info", seq=at, ts_us=at, explanation=words, evidence=["a row"])
        for at, words in enumerate(explanations)
    ]
    return violations([RuleFindings("stalled", 9, {"info": len(findings)}, findings)], ALL)


def test_the_parts_stand_as_columns_and_those_that_are_missing_are_null() -> None:
    found = columns(*EXPLANATIONS.values())
    assert found["what"] == ["1:1 went to c1"] * 4
    assert found["against"] == [None, "c2 held it", "1:2 had gone", None]
    assert found["why"] == [(), (), ("a", "b"), ("known bug F2: x",)]
    assert found["remedy"] == [None, None, None, "Upgrade. Wait."]
    assert found["explanation"] == list(EXPLANATIONS)


def test_every_column_that_a_finding_fills_is_one_of_the_table() -> None:
    # These are added to the rows of all findings together.
    later = {"topic", "subscription", "broker", "finding_id", "key", "accepted"}
    assert columns(FindingText("x")).keys() == {column.name for column in VIOLATIONS.written_columns} - later


def test_without_findings_there_are_no_columns() -> None:
    assert violations([RuleFindings("stalled", 9, {}, [])], ALL) == {}


@pytest.mark.parametrize("name", ["a, but b", "a; b", "a (join b), c", "; known bug F2: x. y"])
def test_a_name_with_words_of_the_sentence_moves_no_border_between_parts(name: str) -> None:
    log = Log()
    log.join(1, name=name)
    log.join(2)
    log.publish(0, LOW)
    log.dispatch(1, 0, LOW)
    replay = replayed(log.rows)
    (finding,) = (one for of_rule in dispatch_findings(replay.context) for one in of_rule.worst)
    words = finding.explanation
    assert words.what.startswith(f"entry 1:0 of hash 21772 went to {name} (consumer 1) at ")
    assert words.against == "in epoch 1 (join c2) the hash is routed to c2 (consumer 2)"
    assert (words.why, words.remedy, finding.change) == ((), "", "join c2")


@pytest.mark.parametrize("bug", catalogue())
def test_a_known_bug_is_a_reason_and_its_way_out_the_remedy(bug: str) -> None:
    release = Release(catalogue()[bug].introduced[0])
    words = FindingText("1:1 was sent twice", why=titles([bug]), remedy=remedy([bug], release))
    title, way_out = catalogue()[bug].title, catalogue()[bug].remedy_for(release)
    assert words.sentence == f"1:1 was sent twice; known bug {bug}: {title.removesuffix('.')}. {way_out}"


def test_the_words_of_every_rule_are_joined_where_they_contradict_something() -> None:
    worded = [rule.wording for rule in RULES.values() if rule.wording is not None]
    worded += [wording for rule in RULES.values() for wording in rule.otherwise.values()]
    assert all(bool(wording.contrast) == bool(wording.against) for wording in worded)
