"""The profiles of conf/profiles: which one a broker gets, and what it says of that broker."""

import pytest
from pydantic import ValidationError

from dispatch_audit.pipeline.contract.exceptions import EXCEPTIONS
from dispatch_audit.pipeline.contract.profile import Profile, profile_for, profile_named, profiles, version_parts
from dispatch_audit.pipeline.contract.rules import RULES
from dispatch_audit.pipeline.errors import UsageError

CLASSIC = {"subscriptionKeySharedUseClassicPersistentImplementation": True}
LOOK_AHEAD = "keySharedLookAheadMsgInReplayThresholdPer"


@pytest.mark.parametrize(
    ("version", "settings", "name"),
    [
        ("3.0.0", {}, "pulsar-3.0"),
        ("3.2.4", CLASSIC, "pulsar-3.0"),  # no such setting there
        ("3.3.6", {}, "pulsar-3.3"),
        ("4.0", {}, "pulsar-4.0.0"),
        ("4.0.2", {}, "pulsar-4.0.0"),
        ("4.0.6", {}, "pulsar-4.0.3"),
        ("4.0.6", CLASSIC, "pulsar-4.0-classic"),
        ("4.0.7", CLASSIC, "pulsar-4.0.7-classic"),
        ("4.1.0", {}, "pulsar-4.0.7"),
        ("4.2.4-SNAPSHOT", {}, "pulsar-4.2"),
        ("4.2.4", CLASSIC, "pulsar-4.2-classic"),
        ("5.0.1", CLASSIC, "pulsar-5.0"),  # gone there
    ],
)
def test_version_and_dispatcher_choose_the_profile(version: str, settings: dict[str, object], name: str) -> None:
    assert profile_for(version, settings).name == name


@pytest.mark.parametrize("version", ["2.11.4", "four", ""])
def test_a_version_without_a_profile_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match="--profile"):
        profile_for(version, {})


def test_versions_compare_by_their_numbers() -> None:
    assert version_parts("4.0") == version_parts("4.0.0-rc-1") < version_parts("4.0.9") < version_parts("4.0.10")


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
        ("E7", set(profiles()) - {"pulsar-5.0"}),
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
        Profile.model_validate({**profile_named("pulsar-4.2").model_dump(), field: value})


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
        ("4.2.4", "acknowledgmentAtBatchIndexLevelEnabled", True),
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


def test_the_classic_dispatcher_has_no_look_ahead_limit() -> None:
    assert not [name for name in profile_for("4.2.4", CLASSIC).settings if name.startswith("keyShared")]


def test_what_was_recorded_overrides_the_defaults() -> None:
    recorded = {f"{LOOK_AHEAD}Consumer": 7, "dispatcherMinReadBatchSize": None, "numIOThreads": 4}
    broker = profile_for("4.0.8", {}).broker(recorded)
    assert broker[f"{LOOK_AHEAD}Consumer"] == 7
    assert broker["dispatcherMinReadBatchSize"] == 1
    assert broker["numIOThreads"] == 4
    assert profile_for("4.0.8", {}).settings[f"{LOOK_AHEAD}Consumer"] == 2_000
