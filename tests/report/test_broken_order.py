"""The sentence that says how order was broken: who was sent what, who held it, since when, and what helps."""

from dataclasses import replace

from report_rows import BROKEN

from dispatch_audit.pipeline.report.answers import answers_on
from dispatch_audit.pipeline.report.incidents import broken_order

HELD = replace(
    next(finding for finding in BROKEN.findings if finding.rule == "single_holder"),
    severity="known_bug",
    known_bug="F2",
    permitted_by=None,
    key="key-7",
    consumer=12,
    consumer_name="flap104",
    other_consumer=4,
    other_consumer_name="c2",
    change="join flap104",
    ts_us=1_763_689_398_961_000,
    remedy="Use the draining dispatcher of 4.0.7.",
)
LATER = replace(HELD, key="key-1", ts_us=HELD.ts_us + 1_000)


def test_it_names_who_whom_which_keys_since_when_and_what_helps() -> None:
    said = broken_order(replace(BROKEN, findings=(HELD, LATER)))
    assert said == (
        "from 2025-11-21 01:43:18.961 UTC on flap104 (consumer 12) was sent key-7 and key-1 while c2 (consumer 4) "
        "still held entries of the same (F2); use the draining dispatcher of 4.0.7"
    )


def test_a_violation_comes_before_a_known_bug_that_is_listed_first() -> None:
    proven = replace(HELD, severity="violation", known_bug=None, consumer_name="c9", change="join c9", remedy=None)
    assert " c9 (consumer 12) was sent key-7 " in broken_order(replace(BROKEN, findings=(HELD, proven)))


def test_the_answer_is_the_sentence_and_the_counts() -> None:
    order, _ = answers_on(replace(BROKEN, findings=(HELD,)))
    assert order.text.startswith(broken_order(replace(BROKEN, findings=(HELD,))))
    assert "; 13 violations of single_holder" in order.text


def test_findings_that_are_not_kept_leave_the_counts() -> None:
    assert broken_order(replace(BROKEN, findings=())) == ""
