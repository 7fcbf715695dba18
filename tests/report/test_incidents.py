"""Findings with one cause are one incident, and lose none of their facts in it."""

from dataclasses import replace
from io import StringIO

import pytest
from report_rows import BROKEN, FINDING, TABLES, counts
from rich.console import Console

from dispatch_audit.pipeline.report.incidents import incidents
from dispatch_audit.pipeline.report.summary import Finding, Summary
from dispatch_audit.pipeline.report.text.layout import WHOLE_LINES
from dispatch_audit.pipeline.report.text.report import ReportOptions, print_report

_STALLED = replace(FINDING, rule="stalled", against=None)
_F2 = "known bug F2: An entry that waited goes to a consumer that joined later"
_F4 = "known bug F4: A rolling restart combines F1 to F3"
_WAITED = "the entry was read before the receiver joined and waited"
_WAY_OUT = "Use the draining dispatcher of 4.0.7, 4.1.1 or 4.2."


def overtaking(number: int, change: str = "join blue", bugs: str = "F2", consumer: int = 2) -> Finding:
    """A finding of `single_holder`: entry 7:number went to a consumer that had just joined, while another held one."""
    holder = 3 + number % 2
    return replace(
        FINDING,
        severity="known_bug",
        seq=100 + number,
        ts_us=FINDING.ts_us + number * 1_000,
        ledger_id=7,
        entry_id=number,
        key=f"order-{number % 3}",
        known_bug=bugs,
        consumer=consumer,
        consumer_name="blue",
        other_consumer=holder,
        other_consumer_name=f"holder-{holder}",
        what=f"entry 7:{number} of hash 4711 went to blue (consumer {consumer})",
        against=f"holder-{holder} (consumer {holder}) still held entry 7:0",
        why=(_WAITED, _F2, _F4) if "F4" in bugs else (_WAITED, _F2),
        remedy=_WAY_OUT,
        change=change,
        finding_id=f"{number:012x}",
    )


def text_of(findings: list[Finding], incidents_max: int | None = None, counted: int | None = None) -> str:
    number = len(findings) if counted is None else counted
    run = replace(BROKEN, findings=tuple(findings), rules=(counts("single_holder", 900, known_bug=number),))
    stream = StringIO()
    print_report(Summary("out", TABLES, (run,)), Console(file=stream, width=WHOLE_LINES), ReportOptions(incidents_max))
    return stream.getvalue()


def test_entries_that_one_join_let_overtake_are_one_incident_with_all_its_facts() -> None:
    text = text_of([overtaking(at, bugs="F2, F4 (#23307)" if at == 1 else "F2") for at in range(1, 14)])
    assert "\nThe worst incident\n  known bug (F2, F4 (#23307))  single_holder: 13 entries, one join of blue\n" in text
    for line in (
        "what     entry 7:1 of hash 4711 went to blue (consumer 2)",
        "against  holder-4 (consumer 4) still held entry 7:0",
        "alike    12 findings more up to 2026-01-01 00:00:01.263 (seq 113), keys order-0, order-1 and order-2, against "
        "holder-4 (consumer 4) and holder-3 (consumer 3)",
        f"why      {_WAITED}",
        f"         {_F2}",
        f"         {_F4}",
        f"remedy   {_WAY_OUT}",
        "more     dispatch-audit explain out --violation 000000000001",
    ):
        assert f"\n  {line}\n" in text


def test_of_a_rule_with_more_findings_than_were_read_an_incident_has_at_least_so_many() -> None:
    text = text_of([overtaking(at) for at in range(1, 14)], counted=5_000)
    assert "  known bug (F2)  single_holder: at least 13 entries, one join of blue\n" in text
    assert "  alike    at least 12 findings more up to " in text


@pytest.mark.parametrize(
    "changed",
    [
        overtaking(2, change="join green"),
        overtaking(2, consumer=9),
        overtaking(2, bugs="F4 (#23307)"),
        replace(overtaking(2), topic="another"),
        replace(overtaking(2), severity="violation"),
        replace(overtaking(2), rule="ownership"),
    ],
    ids=["another join", "another receiver", "another bug", "another topic", "another severity", "another rule"],
)
def test_another_cause_is_another_incident(changed: Finding) -> None:
    assert len(incidents([overtaking(1), overtaking(2), changed])) == 2


def test_what_a_bug_did_without_a_change_is_one_incident_whoever_it_hit() -> None:
    stuck = [
        replace(
            FINDING,
            rule="draining_stuck",
            severity="known_bug",
            known_bug="#23845",
            sticky_hash=at,
            consumer=at,
            what=f"entry 1:{at} of hash {at} waited for 2 s",
        )
        for at in range(5)
    ]
    assert "  known bug (#23845)  draining_stuck: 5 hashes\n" in text_of(stuck)


def test_a_stall_of_the_subscription_is_no_stall_of_a_hash_and_both_are_said() -> None:
    of_hashes = [
        replace(_STALLED, sticky_hash=at, ledger_id=1, entry_id=at, what=f"entry 1:{at} waited") for at in range(3)
    ]
    of_all = replace(_STALLED, sticky_hash=None, what="no entry was sent to any consumer")
    text = text_of([*of_hashes, of_all])
    assert "  violation  stalled: 3 hashes\n" in text
    for sentence_of_one in ("entry 1:0 waited", "entry 1:1 waited", "entry 1:2 waited", of_all.what):
        assert f" {sentence_of_one}\n" in text


def test_findings_that_are_about_no_entry_are_all_said_up_to_a_few() -> None:
    counters = [
        replace(
            FINDING, rule="impossible_counter", severity="info", against=None, what=f"the broker reports {-at} messages"
        )
        for at in range(1, 7)
    ]
    text = text_of(counters, incidents_max=9)
    assert all(f" the broker reports -{at} messages\n" in text for at in range(1, 5))
    assert "\n           and 2 more of this kind\n" in text


def test_each_setting_is_an_incident_of_its_own() -> None:
    claims = [replace(FINDING, rule="settings_mismatch", explanation=f"trace.json claims {name}") for name in "ab"]
    assert len(incidents(claims)) == 2


def test_reasons_beyond_those_of_the_worst_finding_are_counted() -> None:
    worst = replace(overtaking(1), why=("a", "b", "c", "d"))
    others = [replace(overtaking(at), why=("a", f"of {at}")) for at in range(2, 5)]
    assert "\n  why      a\n           b\n           c\n           d\n           and 3 more of this kind\n" in text_of(
        [worst, *others]
    )


def test_a_reset_is_a_change_without_a_name() -> None:
    assert "  known bug (F2)  single_holder: 2 entries, one reset\n" in text_of(
        [overtaking(at, change="reset") for at in (1, 2)]
    )
