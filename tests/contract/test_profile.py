"""The profiles of conf/profiles: which one a broker gets, and what it says of that broker."""

from itertools import pairwise

import pytest
from pydantic import ValidationError

from dispatch_audit.pipeline.contract.exceptions import EXCEPTIONS
from dispatch_audit.pipeline.contract.profile import (
    Profile,
    judged_as,
    newest_profile,
    profile_for,
    profile_named,
    profiles,
)
from dispatch_audit.pipeline.contract.release import Release
from dispatch_audit.pipeline.contract.rules import RULES
from dispatch_audit.pipeline.errors import UsageError

CLASSIC = {"subscriptionKeySharedUseClassicPersistentImplementation": True}
LOOK_AHEAD = "keySharedLookAheadMsgInReplayThresholdPer"


@pytest.mark.parametrize(
    ("version", "settings", "name"),
    [
        ("3.0.0", {}, "pulsar-3.0.0"),
        ("3.0.4", {}, "pulsar-3.0.3"),
        ("3.0.6", {}, "pulsar-3.0.5"),
        ("3.0.13", {}, "pulsar-3.0.7"),
        ("3.0.14", {}, "pulsar-3.0.14"),
        ("3.1.2", {}, "pulsar-3.1.0"),
        ("3.1.3", {}, "pulsar-3.1.3"),
        ("3.2.0", {}, "pulsar-3.2.0"),
        ("3.2.4", CLASSIC, "pulsar-3.2.3"),  # no such setting there
        ("3.3.1", {}, "pulsar-3.3.0"),
        ("3.3.6", {}, "pulsar-3.3.2"),
        ("4.0", {}, "pulsar-4.0.0"),
        ("4.0.2", {}, "pulsar-4.0.0"),
        ("4.0.6", {}, "pulsar-4.0.3"),
        ("4.0.6", CLASSIC, "pulsar-4.0.0-classic"),
        ("4.0.7", CLASSIC, "pulsar-4.0.7-classic"),
        ("4.0.10", {}, "pulsar-4.0.7"),
        ("4.0.12", {}, "pulsar-4.0.11"),
        ("4.0.14", CLASSIC, "pulsar-4.0.14-classic"),
        ("4.1.0", {}, "pulsar-4.1.0"),
        ("4.1.3", {}, "pulsar-4.1.1"),
        ("4.2.1", {}, "pulsar-4.2.0"),
        ("4.2.3", {}, "pulsar-4.2.2"),
        ("4.2.4-SNAPSHOT", {}, "pulsar-4.2.4"),
        ("4.2.4", CLASSIC, "pulsar-4.2.0-classic"),
        ("5.0.0-M1", {}, "pulsar-5.0.0-M1"),
        ("5.0.0-M2", CLASSIC, "pulsar-5.0.0-M1-classic"),
        ("5.0.0", {}, "pulsar-5.0.0"),
        ("5.0.1", CLASSIC, "pulsar-5.0.1"),  # gone there
    ],
)
def test_version_and_dispatcher_choose_the_profile(version: str, settings: dict[str, object], name: str) -> None:
    assert profile_for(version, settings).name == name


@pytest.mark.parametrize("version", ["2.11.4", "four", ""])
def test_a_version_without_a_profile_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match="--profile"):
        profile_for(version, {})


@pytest.mark.parametrize(
    ("version", "settings", "words"),
    [
        ("4.0.14", {}, None),
        ("4.0.14-SNAPSHOT", {}, None),
        ("4.0.7.1", {}, None),
        (None, {}, None),
        ("4.0.15", {}, "no profile was read for Pulsar 4.0.15: it is judged as 4.0.14, the last release of its branch"),
        ("3.1.4", {}, "no profile was read for Pulsar 3.1.4: it is judged as 3.1.3, the last release of its branch"),
        ("4.3.0", CLASSIC, "Pulsar 4.3.0: it is judged as 4.2.5, the last release of the branch before that one was"),
        ("5.0.0-M3", {}, "Pulsar 5.0.0-M3: it is judged as 5.0.0-M2, the last release of its branch"),
    ],
)
def test_the_report_can_say_that_no_profile_was_read_for_a_release(
    version: str | None, settings: dict[str, object], words: str | None
) -> None:
    reported = judged_as(version, profile_for(version or "4.0.8", settings))
    assert reported is None if words is None else reported is not None and words in reported


def test_a_profile_that_the_user_named_is_said_to_stand_in_for_a_release_without_one() -> None:
    words = "no profile was read for Pulsar 4.0.15: it is judged as 4.0.10"
    assert judged_as("4.0.15", profile_named("pulsar-4.0.7")) == words
    assert judged_as("4.0.14", profile_named("pulsar-4.0.7")) is None


@pytest.mark.parametrize("classic", [False, True])
def test_the_profiles_of_a_branch_are_for_all_its_releases_each_for_its_own(classic: bool) -> None:
    of_branch: dict[object, list[Profile]] = {}
    for profile in profiles().values():
        if profile.classic == classic:
            of_branch.setdefault(Release(profile.from_version).branch, []).append(profile)
    for branch, found in of_branch.items():
        assert Release(found[0].from_version) <= Release(f"{branch}.0"), f"{branch} has no profile from the beginning"
        for earlier, later in pairwise(found):
            assert Release(earlier.to_version) < Release(later.from_version)


def test_a_profile_is_named_after_its_first_release() -> None:
    for profile in profiles().values():
        assert profile.name == f"pulsar-{profile.from_version}{'-classic' if profile.classic else ''}"
        assert profile.classic is False or profile_named(profile.name.removesuffix("-classic")).has_classic


def test_a_profile_has_its_name_of_earlier_versions_too() -> None:
    assert profile_named("pulsar-3.0") is profiles()["pulsar-3.0.7"]
    assert profile_named("pulsar-4.2-classic") is profiles()["pulsar-4.2.0-classic"]


def test_the_newest_profile_is_that_of_the_newest_release() -> None:
    assert newest_profile().name == "pulsar-5.0.1"


def test_a_profile_ends_in_its_own_branch() -> None:
    with pytest.raises(ValidationError, match=r"4\.1\.0"):
        Profile.model_validate({**profile_named("pulsar-4.0.14").model_dump(), "to_version": "4.1.0"})


@pytest.mark.parametrize("profile", profiles().values(), ids=list(profiles()))
def test_draining_is_asked_only_of_a_dispatcher_that_drains(profile: Profile) -> None:
    drains = profile.dispatcher == "draining"
    assert set(RULES) - set(profile.rules) == (set() if drains else {"draining_stuck", "draining_mismatch"})
    assert ("E15" in profile.exceptions) is drains
    assert ("E14" in profile.exceptions) is not drains
    assert (f"{LOOK_AHEAD}Consumer" in profile.settings) is drains


@pytest.mark.parametrize("profile", profiles().values(), ids=list(profiles()))
def test_rules_and_exceptions_exist_and_stand_in_their_order(profile: Profile) -> None:
    assert list(profile.rules) == [rule for rule in RULES if rule in profile.rules]
    assert list(profile.exceptions) == [known for known in EXCEPTIONS if known in profile.exceptions]


@pytest.mark.parametrize(
    ("exception", "where"),
    [
        ("E8", {"pulsar-4.0.0"}),
        ("E7", set(profiles()) - {"pulsar-5.0.1"}),
        ("E16", set(profiles())),
        ("E17", set(profiles())),
    ],
)
def test_exceptions_end_with_the_versions_that_need_them(exception: str, where: set[str]) -> None:
    assert {profile.name for profile in profiles().values() if exception in profile.exceptions} == where


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("rules", ["single_holder", "no_such_rule"]),
        ("exceptions", ["E18"]),
        ("settings", {"keySharedUnblockingIntervalMs": "10"}),
        ("no_such_field", 1),
    ],
)
def test_what_nobody_knows_is_an_error(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        Profile.model_validate({**profile_named("pulsar-4.2.4").model_dump(), field: value})


@pytest.mark.parametrize(
    ("version", "setting", "default"),
    [
        ("3.0.7", "maxUnackedMessagesPerConsumer", 50_000),
        ("3.0.7", "subscriptionKeySharedUseConsistentHashing", True),
        ("3.3.2", f"{LOOK_AHEAD}Subscription", None),
        ("4.0.8", f"{LOOK_AHEAD}Consumer", 2_000),
        ("4.0.8", f"{LOOK_AHEAD}Subscription", 20_000),
        ("4.0.8", "keySharedUnblockingIntervalMs", 10),
        ("4.0.8", "acknowledgmentAtBatchIndexLevelEnabled", False),
        ("4.0.14", "acknowledgmentAtBatchIndexLevelEnabled", False),
        ("4.1.0", "acknowledgmentAtBatchIndexLevelEnabled", True),
        ("4.2.4", "acknowledgmentAtBatchIndexLevelEnabled", True),
        ("4.0.13", "dispatcherDispatchMessagesInSubscriptionThread", True),
        ("4.0.14", "dispatcherDispatchMessagesInSubscriptionThread", False),
        ("4.2.4", "dispatcherDispatchMessagesInSubscriptionThread", True),
        ("4.2.5", "dispatcherDispatchMessagesInSubscriptionThread", False),
        ("5.0.0-M1", f"{LOOK_AHEAD}Consumer", 4_000),
        ("5.0.0-M1", "managedLedgerMaxUnackedRangesToPersist", 200_000),
        ("5.0.0-M2", "dispatcherMaxReadBatchSize", 100),
        ("5.0.0-M2", "dispatcherDispatchMessagesInSubscriptionThread", True),
        ("5.0.0", "dispatcherMaxReadBatchSize", 500),
        ("5.0.0", "dispatcherDispatchMessagesInSubscriptionThread", False),
        ("4.2.4", "dispatcherMaxReadBatchSize", 100),
        ("4.2.4", "managedLedgerMaxUnackedRangesToPersist", 10_000),
        ("5.0.1", f"{LOOK_AHEAD}Consumer", 4_000),
        ("5.0.1", f"{LOOK_AHEAD}Subscription", 40_000),
        ("5.0.1", "dispatcherMaxReadBatchSize", 500),
        ("5.0.1", "managedLedgerMaxUnackedRangesToPersist", 200_000),
        ("5.0.1", "maxUnackedMessagesPerSubscription", 200_000),
    ],
)
def test_an_unrecorded_setting_has_the_default_of_its_version(version: str, setting: str, default: object) -> None:
    found = profile_for(version, {}).broker({}).get(setting)
    assert (type(found), found) == (type(default), default)


@pytest.mark.parametrize(
    ("version", "heeded"),
    [
        ("4.0.13", []),
        ("4.0.14", [f"{LOOK_AHEAD}Subscription"]),
        ("4.1.3", []),
        ("4.2.4", []),
        ("4.2.5", [f"{LOOK_AHEAD}Subscription"]),
        ("5.0.0-M2", []),
    ],
)
def test_the_classic_dispatcher_heeds_one_look_ahead_limit_in_its_last_releases(
    version: str, heeded: list[str]
) -> None:
    assert [name for name in profile_for(version, CLASSIC).settings if name.startswith("keyShared")] == heeded


@pytest.mark.parametrize(
    ("version", "releases"),
    [
        ("4.0.10", "any"),
        ("4.0.11", "administrative"),
        ("4.1.3", "any"),
        ("4.2.1", "any"),
        ("4.2.2", "administrative"),
        ("5.0.0-M1", "administrative"),
    ],
)
def test_mark_delete_releases_on_its_own_up_to_a_release_of_each_branch(version: str, releases: str) -> None:
    assert profile_for(version, {}).mark_delete_releases == releases


@pytest.mark.parametrize(
    ("version", "look_ahead"),
    [
        ("4.0.12", "any"),
        ("4.0.13", "out_of_order"),
        ("4.0.14", "none"),
        ("4.1.3", "any"),
        ("4.2.4", "out_of_order"),
        ("4.2.5", "none"),
        ("5.0.0-M1", "any"),
        ("5.0.0-M2", "none"),
    ],
)
def test_a_read_looks_ahead_at_the_end_of_the_topic_up_to_a_release_of_each_branch(
    version: str, look_ahead: str
) -> None:
    assert profile_for(version, {}).look_ahead_at_the_end == look_ahead


@pytest.mark.parametrize(
    ("version", "reads"),
    [
        ("3.0.0", False),
        ("3.0.4", False),
        ("3.0.5", True),
        ("3.0.7", True),
        ("3.1.3", False),
        ("3.2.2", False),
        ("3.2.3", True),
        ("3.3.0", True),
    ],
)
def test_reads_go_past_replay_from_a_release_of_a_branch_on(version: str, reads: bool) -> None:
    assert profile_for(version, {}).reads_past_replay is reads


@pytest.mark.parametrize(("version", "late"), [("4.2.5", False), ("5.0.0-M1", True), ("5.0.0", True)])
def test_the_cursor_deletes_before_the_dispatcher_forgets_from_a_release_on(version: str, late: bool) -> None:
    assert profile_for(version, {}).acks_release_late is late


@pytest.mark.parametrize(
    ("version", "nothing"), [("4.2.5", False), ("5.0.0-M2", False), ("5.0.0", True), ("5.0.1", True)]
)
def test_a_connection_that_is_full_takes_nothing_from_a_release_on(version: str, nothing: bool) -> None:
    assert profile_for(version, {}).unwritable_takes_nothing is nothing


def test_reads_of_the_classic_dispatcher_go_past_replay() -> None:
    assert all(profile.reads_past_replay for profile in profiles().values() if profile.classic)


@pytest.mark.parametrize(
    ("version", "delivers"),
    [
        ("3.0.13", True),
        ("3.0.14", False),
        ("3.1.3", True),
        ("3.2.4", True),
        ("3.3.8", True),
        ("3.3.9", False),
        ("4.0.6", True),
        ("4.0.7", False),
        ("4.1.0", True),
        ("4.1.1", False),
        ("4.2.0", False),
    ],
)
def test_a_gap_is_delivered_up_to_a_release_of_each_branch(version: str, delivers: bool) -> None:
    assert profile_for(version, {}).exclusive_gap_delivery is delivers


def test_what_was_recorded_overrides_the_defaults() -> None:
    recorded = {f"{LOOK_AHEAD}Consumer": 7, "dispatcherMinReadBatchSize": None, "numIOThreads": 4}
    broker = profile_for("4.0.8", {}).broker(recorded)
    assert broker[f"{LOOK_AHEAD}Consumer"] == 7
    assert broker["dispatcherMinReadBatchSize"] == 1
    assert broker["numIOThreads"] == 4
    assert profile_for("4.0.8", {}).settings[f"{LOOK_AHEAD}Consumer"] == 2_000
