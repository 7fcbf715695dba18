"""The catalogue of known flaws, and which of them a broker can have."""

import re
from typing import get_args

import pytest
from pydantic import ValidationError

from dispatch_audit.pipeline.contract.known_bugs import (
    KnownBug,
    Symptom,
    bugs_by_symptom,
    catalogue,
    known_bugs,
    labels,
    sentence,
)
from dispatch_audit.pipeline.contract.profile import profile_for, profile_named, profiles, version_parts

CLASSIC = {"subscriptionKeySharedUseClassicPersistentImplementation": True}
OF_3X = {"F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9"}


@pytest.mark.parametrize(
    ("version", "settings", "found"),
    [
        ("3.0.7", {}, {*OF_3X, "F10", "F12", "exclusive_gap"}),
        ("3.3.6", {}, {*OF_3X, "F10", "F12", "exclusive_gap"}),
        ("4.0.1", {}, {"#23870", "#23845", "#25627", "#21554", "F10", "F12", "exclusive_gap"}),
        ("4.0.4", {}, {"#23845", "#25627", "#21554", "#26471", "F10", "F12", "exclusive_gap"}),
        ("4.0.7", {}, {"#25627", "#21554", "#26471", "F10", "F12", "exclusive_gap"}),
        ("4.0.8", {}, {"#25627", "#21554", "#26471", "F10", "F12"}),
        ("4.2.4", {}, {"#25627", "#26471", "F10", "F12"}),
        ("5.0.1", {}, {"#25627", "F10", "F12"}),
        ("4.0.4", CLASSIC, {*OF_3X, "F10", "F12", "F11", "exclusive_gap"}),
        ("4.0.8", CLASSIC, {*OF_3X, "F10", "F12", "F11"}),
        ("4.2.4", CLASSIC, {*OF_3X - {"F8"}, "F10", "F12", "F11"}),
    ],
)
def test_a_broker_can_have_what_its_version_and_dispatcher_have(
    version: str, settings: dict[str, object], found: set[str]
) -> None:
    assert set(known_bugs(version, profile_for(version, settings))) == found


def test_a_named_profile_stands_in_for_a_version_that_is_none() -> None:
    profile = profile_named("pulsar-4.2")
    assert known_bugs("nightly", profile) == known_bugs("4.2.0", profile)


def test_every_flaw_of_the_semantics_is_there() -> None:
    assert {f"F{number}" for number in range(1, 13)} <= set(catalogue())
    numbers = {number for bug in catalogue().values() for number in bug.issues}
    assert numbers >= {"#23870", "#23845", "#25627", "#23307", "#21199", "#15705", "#23200", "#23315", "#20407"}


@pytest.mark.parametrize("bug", catalogue().values(), ids=list(catalogue()))
def test_an_entry_is_fit_to_be_shown(bug: KnownBug) -> None:
    assert bug.title.endswith(".")
    assert bug.remedy.endswith(".")
    assert all(re.fullmatch(r"#\d+", number) for number in bug.issues)
    assert bug.fixed_in is None or version_parts(bug.introduced) < version_parts(bug.fixed_in)


def test_what_a_bug_explains_is_asked_of_each_broker_that_can_have_it() -> None:
    for profile in profiles().values():
        for bug in known_bugs(profile.from_version, profile).values():
            assert set(bug.rules) <= set(profile.rules), f"{bug.id} under {profile.name}"


def test_every_symptom_is_that_of_a_flaw() -> None:
    assert {symptom for bug in catalogue().values() for symptom in bug.symptoms} == set(get_args(Symptom))


def test_a_symptom_is_that_of_the_flaws_which_this_broker_can_have() -> None:
    of_3x = bugs_by_symptom("3.0.7", profile_for("3.0.7", {}))
    assert of_3x["passed_over_in_replay"] == ("F6",)
    assert of_3x["counted_as_draining_again"] == of_3x["hidden_in_replay"] == ()
    assert bugs_by_symptom("4.0.6", profile_for("4.0.6", {}))["counted_as_draining_again"] == ("#23845",)
    assert bugs_by_symptom("4.0.7", profile_for("4.0.7", {}))["counted_as_draining_again"] == ()


def test_flaws_in_words_have_each_remedy_once() -> None:
    first, second = catalogue()["F3"], catalogue()["F4"]
    assert first.remedy == second.remedy
    told = f"known bug F3: {first.title[:-1]}; known bug F4: {second.title} {second.remedy}"
    assert sentence(["F3", "F4"]) == told
    assert labels(["F3", "F4"]) == "F3 (#23315), F4 (#23307)"
    assert labels([]) is None


def test_profiles_and_catalogue_tell_the_same_story() -> None:
    for profile in profiles().values():
        found = known_bugs(profile.from_version, profile)
        drains = profile.dispatcher == "draining"
        assert ("#23845" in found) is (drains and profile.draining_return == "lazy")
        assert ("#23870" in found) is ("E8" in profile.exceptions)
        assert ("F1" in found) is ("E14" in profile.exceptions)
        assert ("F10" in found) is ("E17" in profile.exceptions)
        # Not the other way round: 4.0.7 may have the flaw, and its profile takes it for fixed (a bracket).
        assert "exclusive_gap" in found or not profile.exclusive_gap_delivery


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rules", ["no_such_rule"]),
        ("rules", []),
        ("fixed_in", "soon"),
        ("dispatcher", "classic"),
        ("fix", "4.0.3"),
        ("symptoms", ["slow"]),
    ],
)
def test_what_nobody_knows_is_an_error(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        KnownBug.model_validate({**catalogue()["F10"].model_dump(), field: value})
