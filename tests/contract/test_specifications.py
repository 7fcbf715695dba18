"""The specifications of the rules: complete, and fit for what is made of them."""

import re
from typing import get_args

import pytest

from dispatch_audit.pipeline.contract.exceptions import EXCEPTIONS, ExceptionId, exceptions_of
from dispatch_audit.pipeline.contract.rule import Rule
from dispatch_audit.pipeline.contract.rules import MISROUTED, NAME_OF, OVERTAKING, RULES, RuleName, rules_of

every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))


def test_every_name_has_its_specification() -> None:
    assert tuple(RULES) == get_args(RuleName)
    assert tuple(EXCEPTIONS) == get_args(ExceptionId)


def test_a_number_stands_for_one_rule() -> None:
    assert {RULES[name].number: name for name in NAME_OF.values()} == NAME_OF
    assert len(NAME_OF) == sum(rule.number is not None for rule in RULES.values())


def test_the_numbers_are_those_of_saved_states() -> None:
    assert tuple(NAME_OF.items())[:11] == (
        (0, "single_holder"),
        (1, "ownership"),
        (2, "first_delivery_order"),
        (3, "early_duplicate"),
        (4, "redelivery_order"),
        (5, "replay_overtaken"),
        (6, "redelivery_count"),
        (7, "unacked_limit"),
        (8, "cumulative_ack"),
        (9, "foreign_ack"),
        (10, "gap_delivery"),
    )


@every_rule
def test_a_rule_is_fit_to_be_shown(rule: Rule) -> None:
    assert rule.statement.endswith(".")
    assert rule.found_when
    assert not re.search(r"\n|\|", f"{rule.statement}{rule.found_when}{rule.unless}")


@every_rule
def test_what_the_core_finds_has_words(rule: Rule) -> None:
    assert (rule.number is None) == (rule.wording is None)
    assert not rule.otherwise or rule.wording


def test_those_that_pass_an_older_entry_say_so_of_a_leaver_too() -> None:
    assert all("leaving" in RULES[NAME_OF[number]].otherwise for number in OVERTAKING)
    assert not set(OVERTAKING) & set(MISROUTED)


def test_a_dispatcher_is_held_to_what_it_promises() -> None:
    assert set(RULES) - set(rules_of("recently_joined")) == {"draining_stuck", "draining_mismatch"}
    assert rules_of("draining") == tuple(RULES)
    assert set(EXCEPTIONS) - set(exceptions_of("draining")) == {"E14"}
    assert set(EXCEPTIONS) - set(exceptions_of("recently_joined")) == {"E8", "E15"}


def test_a_rule_that_only_informs_answers_neither_question() -> None:
    assert {name for name, rule in RULES.items() if rule.informs} <= {n for n, r in RULES.items() if r.about == "facts"}
    assert {"stalled", "draining_stuck"} <= {name for name, rule in RULES.items() if rule.about == "progress"}
    assert all(rule.about == "order" for rule in RULES.values() if "ordered" in rule.rests_on)


def test_a_finding_of_the_kernel_rests_on_dispatches_that_left_the_broker() -> None:
    assert all("sent" in RULES[name].rests_on for name in NAME_OF.values())
