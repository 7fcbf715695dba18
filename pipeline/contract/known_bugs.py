"""Selects from the catalogue of known bugs, `conf/known_bugs.toml`, those that a broker can have.

A known bug explains a finding only if the rows show a symptom of it (Q7). Code names symptoms, and the catalogue maps
them to bugs.

Source: contract 2.4, 3.9 to 3.12, 6.5 and 6.6.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dispatch_audit.pipeline.contract.exceptions import Dispatcher
from dispatch_audit.pipeline.contract.profile import Profile, version_parts
from dispatch_audit.pipeline.contract.rules import RuleName

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def _version(text: str) -> str:
    version_parts(text)
    return text


Version = Annotated[str, AfterValidator(_version)]


Symptom = Literal[
    "unblocked_amid_a_read",
    "counted_as_draining_again",
    "reported_as_draining_still",
    "dropped_while_held",
    "read_before_the_join",
    "waited_at_the_join",
    "moved_by_a_leave",
    "held_after_a_redelivery",
    "passed_over_in_replay",
    "hidden_in_replay",
    "sent_by_two_replay_reads",
    "read_before_the_rewind",
    "gap_inside_one_consumer",
]
"""A pattern in the rows; the code that finds it describes it."""


class KnownBug(BaseModel):
    """A bug of some versions.

    Attributes:
        id: a public number such as `#23845`, an id of contract 6.5 such as `F10`, or a name.
        title: what happens, in a sentence.
        dispatcher: the dispatcher that has the bug.
        introduced: the oldest release that may have the bug.
        fixed_in: the first release known to be free of the bug; None: every release that was read has it.
        rules: the rules whose findings the bug explains.
        symptoms: the patterns that the bug leaves in rows.
        issues: the numbers of its reports and fixes in apache/pulsar.
        remedy: what an operator can do.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    title: str
    dispatcher: Dispatcher | Literal["any"]
    introduced: Version
    fixed_in: Version | None = None
    rules: tuple[RuleName, ...] = Field(min_length=1)
    symptoms: tuple[Symptom, ...] = ()
    issues: tuple[str, ...] = ()
    remedy: str

    def can_exist(self, version: tuple[int, ...], dispatcher: Dispatcher) -> bool:
        """Whether a broker of this version and dispatcher may have the bug."""
        if self.dispatcher not in (dispatcher, "any") or version < version_parts(self.introduced):
            return False
        return self.fixed_in is None or version < version_parts(self.fixed_in)


def label(bug: str) -> str:
    """The label of a bug in tables: `#23870`, or an id without a public number and its issues: `F4 (#23307)`."""
    issues = catalogue()[bug].issues
    return bug if bug.startswith("#") or not issues else f"{bug} ({', '.join(issues)})"


def labels(bugs: Sequence[str]) -> str | None:
    """The labels of bugs as one column; None without bugs."""
    return ", ".join(map(label, bugs)) or None


def sentence(bugs: Sequence[str], named: Callable[[str], str] = str) -> str:
    """The titles and remedies of bugs in words, each remedy once.

    Args:
        bugs: ids, at least one.
        named: turns an id into the name that the sentence uses.
    """
    entries = [catalogue()[bug] for bug in bugs]
    titles = "; ".join(f"known bug {named(bug.id)}: {bug.title.removesuffix('.')}" for bug in entries)
    return " ".join([f"{titles}.", *dict.fromkeys(bug.remedy for bug in entries)])


@cache
def catalogue() -> Mapping[str, KnownBug]:
    """All known bugs by id, in the order of the file."""
    text = files("dispatch_audit").joinpath("conf/known_bugs.toml").read_text(encoding="utf-8")
    bugs = [KnownBug.model_validate(entry) for entry in tomllib.loads(text)["bug"]]
    by_id = {bug.id: bug for bug in bugs}
    assert len(by_id) == len(bugs), "two known bugs have the same id"
    return MappingProxyType(by_id)


def known_bugs(version: str, profile: Profile) -> Mapping[str, KnownBug]:
    """The bugs that a broker can have, by id.

    Args:
        version: the version of the broker. If it is no version number, only the profile that the user named is known,
            and its first version is used.
        profile: the profile of the audit; it names the dispatcher.
    """
    try:
        parts = version_parts(version)
    except ValueError:
        parts = version_parts(profile.from_version)
    return {bug.id: bug for bug in catalogue().values() if bug.can_exist(parts, profile.dispatcher)}


def bugs_by_symptom(version: str, profile: Profile) -> Mapping[Symptom, tuple[str, ...]]:
    """The ids of the bugs that a broker can have, by symptom; takes the arguments of `known_bugs`."""
    bugs = known_bugs(version, profile).values()
    return {known: tuple(bug.id for bug in bugs if known in bug.symptoms) for known in get_args(Symptom)}
