"""Profiles: the differences between broker versions, read from `conf/profiles/` and listed in docs/PROFILES.md.

A profile is data: the replay reads it and contains no version numbers.
"""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import BaseModel, ConfigDict, StrictBool, StrictFloat, StrictInt

from dispatch_audit.pipeline.contract.exceptions import Dispatcher, ExceptionId
from dispatch_audit.pipeline.contract.inheritance import resolved
from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SelectorKind = Literal["consistent_hashing", "auto_split", "exclusive"]
HashRule = Literal["consistent_hashing", "auto_split", "exclusive", "classic", "raw"]

# Strict, so that pydantic turns neither true into 1 nor 1 into true.
SettingValue = StrictBool | StrictInt | StrictFloat

CLASSIC_SETTING = "subscriptionKeySharedUseClassicPersistentImplementation"


class Profile(BaseModel):
    """The rules of one line of broker versions.

    Attributes:
        name: file name in `conf/profiles/` without its ending.
        from_version: first version the profile is for.
        dispatcher: `draining` (PIP-379) or `recently_joined` (3.x and classic).
        keyless: the substitute for the key of a keyless message (contract 1.1).
        ring_collision: which of two consumers keeps a ring point that both hash to (contract 2.1, 2.2).
        exclusive_gap_delivery: whether a gap between two ranges of one STICKY consumer is routed to it (contract 2.4).
        draining_return: when a hash that returns to its holder stops draining (contract 3.4, 3.10).
        mark_delete_releases: which moves of mark-delete release pending entries (contract 3.11).
        rules: the rules for the dispatcher (`dispatch_audit.pipeline.contract.rules`), in the order of reports.
        exceptions: the exceptions from those rules (`dispatch_audit.pipeline.contract.exceptions`).
        hash: hash rule by selector (contract 1.3).
        settings: defaults of those settings of broker.conf that the dispatcher uses (contract 8).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    from_version: str
    dispatcher: Dispatcher
    keyless: Literal["producer_sequence", "none_key"]
    ring_collision: Literal["incumbent_keeps", "newcomer_replaces"]
    exclusive_gap_delivery: bool
    draining_return: Literal["eager", "lazy"]
    mark_delete_releases: Literal["any", "administrative"]
    rules: tuple[RuleName, ...]
    exceptions: tuple[ExceptionId, ...]
    hash: Mapping[SelectorKind, HashRule]
    settings: Mapping[str, SettingValue]

    @property
    def classic(self) -> bool:
        """Whether this is the profile of the classic dispatcher, which 4.x keeps beside the draining one."""
        return self.name.endswith("-classic")

    def broker(self, recorded: Mapping[str, object]) -> dict[str, object]:
        """The settings of a broker: those in its `trace.json` that are not null, else the defaults of its line."""
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
    return {p.name: p for p in sorted(found, key=lambda p: (version_parts(p.from_version), p.name))}


def newest_profile() -> Profile:
    """The profile of the newest versions."""
    return [profile for profile in profiles().values() if not profile.classic][-1]


def profile_named(name: str) -> Profile:
    """The profile called `name`.

    Raises:
        UsageError: there is none.
    """
    try:
        return profiles()[name]
    except KeyError:
        raise UsageError(f"there is no profile {name!r}", f"use one of: {', '.join(profiles())}") from None


def profile_for(version: str, settings: Mapping[str, object]) -> Profile:
    """The profile of the newest line that is not newer than `version`, for the dispatcher that `settings` choose.

    Raises:
        UsageError: `version` is no version number, or older than every profile.
    """
    try:
        wanted = version_parts(version)
    except ValueError:
        raise UsageError(
            f"pulsar_version {version!r} is no version number", "correct trace.json or pass --profile"
        ) from None
    classic = settings.get(CLASSIC_SETTING) is True and (4,) <= wanted < (5,)
    fitting = [p for p in profiles().values() if p.classic == classic and version_parts(p.from_version) <= wanted]
    if not fitting:
        raise UsageError(f"no profile covers Pulsar {version}", f"pass --profile, one of: {', '.join(profiles())}")
    return fitting[-1]


def version_parts(version: str) -> tuple[int, ...]:
    """The numbers of a version for comparison, at least three; leaves out what follows a hyphen.

    Raises:
        ValueError: `version` is no version number.
    """
    parts = [int(part) for part in version.split("-", maxsplit=1)[0].split(".")]
    # Without the zeros 4.0 would count as older than 4.0.0.
    return tuple(parts + [0] * (3 - len(parts)))
