"""The catalogue of known flaws in `conf/known_bugs.toml`: which of them a broker can have.

That a broker can have one does not explain a finding yet: each leaves traces of its own, which the audit looks for.

Source: contract 2.4, 3.9 to 3.12, 6.5 and 6.6.
"""

import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pipeline.contract.profile import Profile, version_parts
from pipeline.contract.rules import RuleName

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def _version(text: str) -> str:
    version_parts(text)
    return text


Version = Annotated[str, AfterValidator(_version)]


class KnownBug(BaseModel):
    """A flaw of some versions.

    Attributes:
        id: a public number such as `#23845`, an id of contract 6.5 such as `F10`, or a name.
        title: what happens, in a sentence.
        dispatcher: which one has it.
        introduced: the oldest release that may have it.
        fixed_in: the first release known to be free of it; None: no release that was read is.
        rules: whose findings it explains.
        issues: apache/pulsar's numbers of reports and fixes of it.
        remedy: what an operator can do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    title: str
    dispatcher: Literal["draining", "recently_joined", "any"]
    introduced: Version
    fixed_in: Version | None = None
    rules: tuple[RuleName, ...] = Field(min_length=1)
    issues: tuple[str, ...] = ()
    remedy: str

    def can_exist(self, version: tuple[int, ...], dispatcher: str) -> bool:
        """Whether a broker of this version and dispatcher may have it."""
        if self.dispatcher not in (dispatcher, "any") or version < version_parts(self.introduced):
            return False
        return self.fixed_in is None or version < version_parts(self.fixed_in)


def label(bug: str) -> str:
    """How tables name a flaw: `#23870`, or what has no number of its own with its public issues: `F4 (#23307)`."""
    issues = catalogue()[bug].issues
    return bug if bug.startswith("#") or not issues else f"{bug} ({', '.join(issues)})"


@cache
def catalogue() -> Mapping[str, KnownBug]:
    """All known flaws by id, in the order of the file."""
    text = files("conf").joinpath("known_bugs.toml").read_text(encoding="utf-8")
    bugs = [KnownBug.model_validate(entry) for entry in tomllib.loads(text)["bug"]]
    by_id = {bug.id: bug for bug in bugs}
    assert len(by_id) == len(bugs), "two known bugs have the same id"
    return MappingProxyType(by_id)


def known_bugs(version: str, profile: Profile) -> Mapping[str, KnownBug]:
    """The flaws that a broker can have, by id.

    Args:
        version: of the broker. Where it is no version number, the first one of the profile stands in: a profile that
            the user named is then all that is known.
        profile: what the broker is audited by; says which dispatcher it runs.
    """
    try:
        parts = version_parts(version)
    except ValueError:
        parts = version_parts(profile.from_version)
    return {bug.id: bug for bug in catalogue().values() if bug.can_exist(parts, profile.dispatcher)}
