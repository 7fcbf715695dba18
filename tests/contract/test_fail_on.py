"""The conditions of `--fail-on`: names, and what each of them takes in."""

import pytest

from dispatch_audit.pipeline.contract.fail_on import parse_fail_on
from dispatch_audit.pipeline.contract.rule import About
from dispatch_audit.pipeline.contract.severity import SEVERITIES, Severity
from dispatch_audit.pipeline.errors import UsageError


@pytest.mark.parametrize(
    ("condition", "failing"),
    [
        ("violation", {"violation", "known_bug"}),
        ("known_bug", {"violation", "known_bug"}),
        ("not_provable", {"violation", "known_bug", "not_provable"}),
        ("permitted", {"violation", "known_bug", "not_provable", "permitted"}),
        ("info", set(SEVERITIES)),
        ("only:known_bug", {"known_bug"}),
        ("only:violation", {"violation"}),
        ("never", set()),
    ],
)
def test_a_condition_on_severities_takes_in_these(condition: str, failing: set[Severity]) -> None:
    chosen = parse_fail_on([condition])
    assert {severity for severity in SEVERITIES if chosen.by_findings([severity], "order")} == failing
    assert not chosen.by_waiting(3_600)


@pytest.mark.parametrize(
    ("condition", "about", "other"), [("order", "order", "progress"), ("stalled", "progress", "order")]
)
def test_a_question_takes_in_violations_and_known_bugs_that_are_about_it(
    condition: str, about: About, other: About
) -> None:
    chosen = parse_fail_on([condition])
    failing = {severity for severity in SEVERITIES if chosen.by_findings([severity], about)}
    assert failing == {"violation", "known_bug"}
    assert not any(chosen.by_findings([severity], other) for severity in SEVERITIES)


def test_a_rule_takes_in_its_own_violations_and_known_bugs() -> None:
    chosen = parse_fail_on(["rule:single_holder", "rule:stalled"])
    for rule in ("single_holder", "stalled"):
        failing = {severity for severity in SEVERITIES if chosen.by_findings([severity], "order", rule)}
        assert failing == {"violation", "known_bug"}
    assert not chosen.by_findings(SEVERITIES, "order", "ownership")
    assert not chosen.by_findings(SEVERITIES, "order")


def test_an_unknown_rule_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(
        UsageError, match=r"--fail-on rule:single_hold names no rule; write rule:NAME, with single_holder"
    ):
        parse_fail_on(["rule:single_hold"])


@pytest.mark.parametrize(
    ("condition", "seconds"), [("held-up:30s", 30), ("held-up:500ms", 0.5), ("held-up:1.5m", 90), ("held-up:1h", 3_600)]
)
def test_held_up_is_longer_than_the_time_given(condition: str, seconds: float) -> None:
    chosen = parse_fail_on([condition])
    assert not chosen.by_waiting(seconds)
    assert chosen.by_waiting(seconds + 0.001)
    assert not chosen.by_findings(SEVERITIES, "progress")


def test_held_up_without_a_time_is_any_wait_that_counts() -> None:
    chosen = parse_fail_on(["held-up"])
    assert (chosen.by_waiting(0.0), chosen.by_waiting(1.0)) == (False, True)


def test_one_of_several_conditions_is_enough() -> None:
    chosen = parse_fail_on(["only:violation, held-up:30s", "order"])
    assert chosen.by_findings(["violation"], "progress")
    assert not chosen.by_findings(["known_bug"], "progress")
    assert chosen.by_findings(["known_bug"], "order")
    assert chosen.by_waiting(31)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["held-upp:30s"],
            "--fail-on held-upp:30s is no condition; write held-up, or held-up:30s (units: ms, s, m, h)",
        ),
        (["held-up:30"], "--fail-on held-up:30 is no condition; write held-up, or held-up:30s"),
        (["held-up:"], "--fail-on held-up: is no condition; write held-up"),
        (["violations"], "--fail-on violations is no condition; the conditions are violation, known_bug, "),
        (["only:info"], "--fail-on only:info is no condition; the conditions are "),
        (["violation,"], "--fail-on  is no condition; "),
        (["never", "violation"], "--fail-on never excludes other conditions; leave it or the others out"),
    ],
)
def test_a_condition_that_does_not_exist_is_a_mistake_in_the_call(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_fail_on(arguments)
    assert f"{refused.value.args[0]}; {refused.value.way_out}".startswith(message)
