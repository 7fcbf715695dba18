"""Profiles: the differences between releases, read from `conf/profiles/` and listed in docs/PROFILES.md.

A profile is data: the replay reads it and contains no version numbers. Each is for some consecutive releases of one
branch, because a branch does not get everything that the one before got.
"""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, StrictBool, StrictFloat, StrictInt, model_validator

from dispatch_audit.pipeline.contract.exceptions import Dispatcher, ExceptionId
from dispatch_audit.pipeline.contract.inheritance import resolved
from dispatch_audit.pipeline.contract.release import Release
from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.messages.nearest import did_you_mean

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SelectorKind = Literal["consistent_hashing", "auto_split", "exclusive"]
HashRule = Literal["consistent_hashing", "auto_split", "exclusive", "classic", "raw"]
RingCollision = Literal["incumbent_keeps", "newcomer_replaces", "shared_by_modulo"]
RingPointText = Literal["name_i", "name_nul_i", "name_nul_index_nul_i"]

# Strict, so that pydantic turns neither true into 1 nor 1 into true.
SettingValue = StrictBool | StrictInt | StrictFloat

CLASSIC_SETTING = "subscriptionKeySharedUseClassicPersistentImplementation"


class Profile(BaseModel):
    """The rules of consecutive releases of one branch.

    Attributes:
        name: file name in `conf/profiles/` without its ending.
        from_version: first release the profile is for.
        to_version: last release that it is known to fit: one of the same branch.
        formerly: the name that it had in runs of earlier versions of the audit.
        dispatcher: `draining` (PIP-379) or `recently_joined` (3.x and classic).
        has_classic: whether these brokers have the classic dispatcher, which a setting chooses, beside this one.
        keyless: the substitute for the key of a keyless message (contract 1.1).
        ring_collision: which of the consumers that hash to one ring point gets its hashes (contract 2.1, 2.2).
        ring_point_text: the text whose hash is a ring point (contract 2.1, 2.2).
        exclusive_gap_delivery: whether a gap between two ranges of one STICKY consumer is routed to it (contract 2.4).
        draining_return: when a hash that returns to its holder stops draining (contract 3.4, 3.10).
        mark_delete_releases: which moves of mark-delete release pending entries (contract 3.11).
        look_ahead_at_the_end: for which subscriptions a read looks ahead although the topic has no more entries (3.11).
        reads_past_replay: whether reads go on where nothing of replay can be sent, also while consumers are recently
            joined (6.2).
        acks_release_late: whether an acknowledged entry stays pending until the cursor has deleted it, which no row
            shows (3.12).
        unwritable_takes_nothing: whether a consumer counts as one without permits while its connection is not
            writable (3.12).
        rules: the rules for the dispatcher (`dispatch_audit.pipeline.contract.rules`), in the order of reports.
        exceptions: the exceptions from those rules (`dispatch_audit.pipeline.contract.exceptions`).
        hash: hash rule by selector (contract 1.3).
        settings: defaults of those settings of broker.conf that the dispatcher uses (contract 8).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    from_version: str
    to_version: str
    formerly: str | None = None
    dispatcher: Dispatcher
    has_classic: bool
    keyless: Literal["producer_sequence", "none_key"]
    ring_collision: RingCollision
    ring_point_text: RingPointText
    exclusive_gap_delivery: bool
    draining_return: Literal["eager", "lazy"]
    mark_delete_releases: Literal["any", "administrative"]
    look_ahead_at_the_end: Literal["any", "out_of_order", "none"]
    reads_past_replay: bool
    acks_release_late: bool
    unwritable_takes_nothing: bool
    rules: tuple[RuleName, ...]
    exceptions: tuple[ExceptionId, ...]
    hash: Mapping[SelectorKind, HashRule]
    settings: Mapping[str, SettingValue]

    @model_validator(mode="after")
    def _of_one_branch(self) -> "Profile":
        first, last = Release(self.from_version), Release(self.to_version)
        if first.branch != last.branch or last < first:
            raise ValueError(f"to_version {last} is no later release of the branch of from_version {first}")
        return self

    @property
    def classic(self) -> bool:
        """Whether this is the profile of the classic dispatcher, which 4.x keeps beside the draining one."""
        return self.name.endswith("-classic")

    def covers(self, release: Release) -> bool:
        """Whether a release is one of those that the profile is known to fit."""
        return Release(self.from_version) <= release <= Release(self.to_version)

    def broker(self, recorded: Mapping[str, object]) -> dict[str, object]:
        """The settings of a broker: those in its `trace.json` that are not null, else the defaults of its release."""
        return {**self.settings, **{name: value for name, value in recorded.items() if value is not None}}


@cache
def profiles() -> Mapping[str, Profile]:
    """All profiles by name, oldest first."""
    by_name = {
        entry.name.removesuffix(".toml"): tomllib.loads(entry.read_text(encoding="utf-8"))
        for entry in files("dispatch_audit").joinpath("conf/profiles").iterdir()
        if entry.name.endswith(".toml")
    }
    found = (Profile(**resolved(name, by_name)) for name in by_name)
    return {p.name: p for p in sorted(found, key=lambda p: (Release(p.from_version), p.name))}


def known_releases() -> list[str]:
    """The releases that a profile was read for."""
    found: list[str] = []
    for profile in profiles().values():
        first, last = (text.rpartition(".") for text in (profile.from_version, profile.to_version))
        if first[2].isdigit() and last[2].isdigit():
            found += (f"{first[0]}.{number}" for number in range(int(first[2]), int(last[2]) + 1))
        else:
            found += (profile.from_version, profile.to_version)
    return list(dict.fromkeys(found))


def newest_profile() -> Profile:
    """The profile of the newest releases."""
    return [profile for profile in profiles().values() if not profile.classic][-1]


def profile_named(name: str) -> Profile:
    """The profile called `name`, now or formerly.

    Raises:
        UsageError: there is none.
    """
    for profile in profiles().values():
        if name in (profile.name, profile.formerly):
            return profile
    raise UsageError(f"there is no profile {name!r}", f"use one of: {', '.join(profiles())}")


def profile_for(version: str, settings: Mapping[str, object]) -> Profile:
    """The profile of a release, for the dispatcher that `settings` choose.

    A release that none covers has that of the nearest earlier release of its branch, or else of the branch before;
    `judged_as` says so in words.

    Raises:
        UsageError: `version` is no version number, or older than every profile.
    """
    try:
        release = Release(version)
    except ValueError:
        raise UsageError(
            f"pulsar_version {version!r} is no version number", "correct trace.json or pass --profile"
        ) from None
    found = _nearest(release, classic=False)
    if found is None:
        raise UsageError(f"no profile covers Pulsar {version}", f"pass --profile, one of: {', '.join(profiles())}")
    if settings.get(CLASSIC_SETTING) is True and found.has_classic:
        return _nearest(release, classic=True) or found
    return found


def refuse_version(version: str) -> None:
    """Refuses a text that is no version.

    Raises:
        UsageError: it is none.
    """
    try:
        Release(version)
    except ValueError:
        meant = did_you_mean(version, known_releases())
        raise UsageError(f"--version {version} is no version of Pulsar", meant or "write it like 4.0.8") from None


def judged_as(version: str | None, profile: Profile) -> str | None:
    """The words that no profile was read for a release, and as which one it is judged; None: one was read.

    Args:
        version: the version of the broker; None: not known.
        profile: the profile of the audit.
    """
    try:
        release = Release(version or profile.from_version)
    except ValueError:
        return None
    if any(known.covers(release) for known in profiles().values()):
        return None
    judged = f"no profile was read for Pulsar {version}: it is judged as {profile.to_version}"
    if profile != _nearest(release, profile.classic):
        return judged
    same = Release(profile.to_version).branch == release.branch
    return f"{judged}, the last release of {'its branch' if same else 'the branch before'} that one was read for"


def _nearest(release: Release, classic: bool) -> Profile | None:
    # Each branch has a profile from its first release on, so the last one up to a release is of its branch.
    earlier = [p for p in profiles().values() if p.classic == classic and Release(p.from_version) <= release]
    return earlier[-1] if earlier else None
