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
    label,
    labels,
    labels_in,
    release_of,
    remedy,
    titles,
)
from dispatch_audit.pipeline.contract.profile import profile_for, profile_named, profiles
from dispatch_audit.pipeline.contract.release import Release
from dispatch_audit.pipeline.errors import DispatchAuditError

CLASSIC = {"subscriptionKeySharedUseClassicPersistentImplementation": True}
EVERYWHERE = {"F10", "F12", "#26454", "#24096", "pending_ack_deadlock"}
UP_TO_4X = {*EVERYWHERE, "#26635", "#26289"}
# 4.0.11 and 4.2.2 have the fix of the first, 3.0.10, 3.3.5 and 4.0.3 that of the second.
LEAK, BLOCKED = "#25581", "#22657"
OF_3X = {*UP_TO_4X, LEAK, "F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9"}
STUCK = {"#21554", "#26268"}


@pytest.mark.parametrize(
    ("version", "settings", "found"),
    [
        ("3.0.7", {}, {*OF_3X, BLOCKED, "exclusive_gap"}),
        ("3.0.14", {}, OF_3X),
        ("3.2.4", {}, {*OF_3X, BLOCKED, "exclusive_gap"}),
        ("3.3.6", {}, {*OF_3X, "exclusive_gap"}),
        ("4.0.1", {}, {*UP_TO_4X, LEAK, BLOCKED, *STUCK, "#23870", "#23845", "#25627", "exclusive_gap"}),
        ("4.0.4", {}, {*UP_TO_4X, LEAK, *STUCK, "#23845", "#25627", "#26471", "exclusive_gap"}),
        ("4.0.8", {}, {*UP_TO_4X, LEAK, *STUCK, "#25627", "#26471"}),
        ("4.0.13", {}, {*UP_TO_4X, "#26268", "#25627", "#26471"}),
        ("4.0.14", {}, {*EVERYWHERE, "#26635", "#25627"}),
        ("4.1.0", {}, {*UP_TO_4X, LEAK, *STUCK, "#23845", "#25627", "#26471", "exclusive_gap"}),
        ("4.1.3", {}, {*UP_TO_4X, LEAK, *STUCK, "#25627", "#26471"}),
        ("4.2.4", {}, {*UP_TO_4X, "#26268", "#25627", "#26471"}),
        ("4.2.5", {}, {*EVERYWHERE, "#26635", "#25627"}),
        ("5.0.0-M1", {}, {*UP_TO_4X, *STUCK, "#25627", "#26471"}),
        ("5.0.0-M2", {}, {*EVERYWHERE, "#26635", "#25627"}),
        ("5.0.1", {}, {*EVERYWHERE, "#25627"}),
        ("4.0.4", CLASSIC, {*OF_3X, "F11", "exclusive_gap"}),
        ("4.0.8", CLASSIC, {*OF_3X - {"F8"}, "F11"}),
        ("4.1.0", CLASSIC, {*OF_3X, "F11", "exclusive_gap"}),
        ("4.2.4", CLASSIC, {*OF_3X - {"F8", LEAK}, "F11"}),
    ],
)
def test_a_broker_can_have_what_its_version_and_dispatcher_have(
    version: str, settings: dict[str, object], found: set[str]
) -> None:
    assert set(known_bugs(Release(version), profile_for(version, settings).dispatcher)) == found


def test_a_named_profile_stands_in_for_a_version_that_is_none() -> None:
    profile = profile_named("pulsar-4.2.4")
    assert release_of("nightly", profile) == release_of(None, profile) == Release("4.2.4")


def test_every_flaw_of_the_semantics_is_there() -> None:
    assert {f"F{number}" for number in range(1, 13)} <= set(catalogue())
    numbers = {number for bug in catalogue().values() for number in bug.issues}
    assert numbers >= {"#23870", "#23845", "#25627", "#23307", "#21199", "#15705", "#23200", "#23315", "#20407"}


@pytest.mark.parametrize("bug", catalogue().values(), ids=list(catalogue()))
def test_an_entry_is_fit_to_be_shown(bug: KnownBug) -> None:
    assert bug.title.endswith(".")
    assert all(re.fullmatch(r"#\d+", number) for number in bug.issues)
    for profile in profiles().values():
        release = Release(profile.from_version)
        if bug.can_exist(release, profile.dispatcher):
            assert bug.remedy_for(release).endswith(".")
            assert f"to {profile.from_version} " not in bug.remedy_for(release)


def test_what_a_bug_explains_is_asked_of_each_broker_that_can_have_it() -> None:
    for profile in profiles().values():
        for bug in known_bugs(Release(profile.from_version), profile.dispatcher).values():
            assert set(bug.rules) <= set(profile.rules), f"{bug.id} under {profile.name}"


def test_every_symptom_is_that_of_a_flaw() -> None:
    assert {symptom for bug in catalogue().values() for symptom in bug.symptoms} == set(get_args(Symptom))


def test_a_symptom_is_that_of_the_flaws_which_this_broker_can_have() -> None:
    of_3x = bugs_by_symptom(Release("3.0.7"), "recently_joined")
    assert of_3x["passed_over_in_replay"] == ("F6",)
    assert of_3x["counted_as_draining_again"] == of_3x["hidden_in_replay"] == ()
    assert bugs_by_symptom(Release("4.0.6"), "draining")["counted_as_draining_again"] == ("#23845",)
    assert bugs_by_symptom(Release("4.0.7"), "draining")["counted_as_draining_again"] == ()


def test_flaws_in_words_have_each_remedy_once() -> None:
    first, second = catalogue()["F3"], catalogue()["F4"]
    assert first.remedy == second.remedy
    assert titles(["F3", "F4"]) == (f"known bug F3: {first.title[:-1]}", f"known bug F4: {second.title[:-1]}")
    assert remedy(["F3", "F4"], Release("3.3.2")) == second.remedy
    assert (titles([]), remedy([], Release("3.3.2"))) == ((), "")


def test_the_labels_of_bugs_can_be_told_apart_in_their_column() -> None:
    assert labels(["F3", "F4"]) == "F3 (#23315), F4 (#23307)"
    assert labels([]) is None
    every = list(catalogue())
    assert labels_in(labels(every) or "") == [label(bug) for bug in every]


def test_profiles_and_catalogue_tell_the_same_story() -> None:
    for profile in profiles().values():
        found = known_bugs(Release(profile.from_version), profile.dispatcher)
        drains = profile.dispatcher == "draining"
        assert ("#23845" in found) is (drains and profile.draining_return == "lazy")
        assert ("#23870" in found) is ("E8" in profile.exceptions)
        assert ("F1" in found) is ("E14" in profile.exceptions)
        assert ("F10" in found) is ("E17" in profile.exceptions)
        assert ("exclusive_gap" in found) is profile.exclusive_gap_delivery
        assert ("#21554" in found) is (drains and profile.look_ahead_at_the_end == "any")
        assert ("#26268" in found) is (drains and profile.look_ahead_at_the_end != "none")


@pytest.mark.parametrize(
    ("bug", "release", "way_out"),
    [
        ("#26471", "4.0.8", "Upgrade to 4.0.14 or later (4.2.5 on 4.2, 5.0.0-M2 on 5.0; no 4.1 has it)."),
        ("#26471", "4.2.4", "Upgrade to 4.2.5 or later (4.0.14 on 4.0, 5.0.0-M2 on 5.0; no 4.1 has it)."),
        ("#26471", "4.1.2", "No 4.1 has the fix: upgrade to 4.2.5 or later (4.0.14 on 4.0, 5.0.0-M2 on 5.0)."),
        ("#26471", "5.0.0-M1", "Upgrade to 5.0.0-M2 or later (4.0.14 on 4.0, 4.2.5 on 4.2; no 4.1 has it)."),
        ("#23870", "4.0.1", "Upgrade to 4.0.3 or later."),
    ],
)
def test_the_way_out_is_a_release_of_the_own_branch_first(bug: str, release: str, way_out: str) -> None:
    assert catalogue()[bug].remedy_for(Release(release)) == way_out


def test_the_way_out_adds_what_helps_besides() -> None:
    way_out = catalogue()["#23845"].remedy_for(Release("4.1.0"))
    assert way_out.startswith("Upgrade to 4.1.1 or later (4.0.7 on 4.0, 4.2.0 on 4.2). Until then disconnect")
    assert catalogue()["#26454"].remedy_for(Release("4.0.8")).startswith("No release is known to fix it")
    assert (
        catalogue()["#26635"].remedy_for(Release("4.2.4")).startswith("No 4.2 has the fix: upgrade to 5.0.0 or later.")
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rules", ["no_such_rule"]),
        ("rules", []),
        ("fixed_in", ["soon"]),
        ("fixed_in", ["4.2.2", "4.0.11"]),
        ("fixed_in", ["2.11.0"]),
        ("introduced", []),
        ("remedy", ""),
        ("dispatcher", "classic"),
        ("fix", "4.0.3"),
        ("symptoms", ["slow"]),
    ],
)
def test_what_nobody_knows_is_an_error(field: str, value: object) -> None:
    with pytest.raises((ValidationError, DispatchAuditError), match=field):
        KnownBug.model_validate({**catalogue()["F10"].model_dump(), field: value})
