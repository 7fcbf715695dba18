"""Selects from the catalogue of known bugs, `conf/known_bugs.toml`, those that a broker can have.

A known bug explains a finding only if the rows show a symptom of it (Q7). Code names symptoms, and the catalogue maps
them to bugs.

Source: contract 2.4, 3.9 to 3.12, 6.5 and 6.6.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dispatch_audit.pipeline.contract.exceptions import Dispatcher
from dispatch_audit.pipeline.contract.profile import Profile, profiles
from dispatch_audit.pipeline.contract.release import Branch, Release, by_branch, reached
from dispatch_audit.pipeline.contract.rules import RuleName
from dispatch_audit.pipeline.contract.signs import SignName, known_bugs_file

Symptom = Literal[
    "unblocked_amid_a_read",
    "counted_as_draining_again",
    "reported_as_draining_still",
    "dropped_while_held",
    "read_before_the_join",
    "waited_at_the_join",
    "moved_by_a_leave",
    "moved_by_a_join",
    "held_after_a_redelivery",
    "passed_over_in_replay",
    "joined_out_of_order",
    "hidden_in_replay",
    "sent_by_two_replay_reads",
    "read_before_the_rewind",
    "gap_inside_one_consumer",
    "unacknowledged_below_zero",
    "total_below_that_of_consumers",
    "permits_below_zero_after_a_leave",
    "write_not_completed",
    "parked_at_the_end",
    "not_sent_out_of_order",
    "nothing_is_read",
    "replay_grows",
    "deadlocked_with_pending_acks",
]
"""A pattern in the rows; the code that finds it describes it."""

# `F2`, or `F6 (#23200, #26677)`.
_LABEL: Final = re.compile(r"[^,(]+(?:\([^)]*\))?")


class KnownBug(BaseModel):
    """A bug of some releases.

    Attributes:
        id: a public number such as `#23845`, an id of contract 6.5 such as `F10`, or a name.
        title: what happens, in a sentence.
        dispatcher: the dispatcher that has the bug.
        introduced: the oldest release of each branch that may have the bug, as `release.reached` reads such lists.
        fixed_in: the first release of each branch that is free of it; empty: every release that is known has it.
        rules: the rules whose findings the bug explains.
        symptoms: the patterns that the bug leaves in rows.
        statistics: the signs that it leaves in the statistics of a broker.
        issues: the numbers of its reports and fixes in apache/pulsar.
        remedy: what an operator can do besides an upgrade.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    title: str
    dispatcher: Dispatcher | Literal["any"]
    introduced: tuple[str, ...] = Field(min_length=1)
    fixed_in: tuple[str, ...] = ()
    rules: tuple[RuleName, ...] = Field(min_length=1)
    symptoms: tuple[Symptom, ...] = ()
    statistics: tuple[SignName, ...] = ()
    issues: tuple[str, ...] = ()
    remedy: str = ""

    @model_validator(mode="after")
    def _can_be_read(self) -> "KnownBug":
        for fix in by_branch(self.fixed_in, f"fixed_in of {self.id}"):
            if not reached(fix, by_branch(self.introduced, f"introduced of {self.id}")):
                raise ValueError(f"fixed_in of {self.id} has {fix}, which never had the bug")
        if not self.fixed_in and not self.remedy:
            raise ValueError(f"{self.id} has neither a release in fixed_in nor a remedy")
        return self

    def can_exist(self, release: Release, dispatcher: Dispatcher) -> bool:
        """Whether a broker of this release and dispatcher may have the bug."""
        return self.dispatcher in (dispatcher, "any") and self._is_in(release)

    def remedy_for(self, release: Release) -> str:
        """What an operator of this release can do: the upgrade, that of the own branch first, and the remedy."""
        return " ".join(filter(None, [self._upgrade(release), self.remedy]))

    def remedy_for_any(self) -> str:
        """What an operator can do whose release is not known: all releases that have the fix, and the remedy."""
        fixes = by_branch(self.fixed_in, "fixed_in")
        fixed = f"Fixed in {', '.join(map(str, fixes))}." if fixes else ""
        return " ".join(filter(None, [fixed, self.remedy]))

    def _is_in(self, release: Release) -> bool:
        introduced, fixed = by_branch(self.introduced, "introduced"), by_branch(self.fixed_in, "fixed_in")
        return reached(release, introduced) and not reached(release, fixed)

    def _upgrade(self, release: Release) -> str:
        fixes = by_branch(self.fixed_in, "fixed_in")
        if not fixes:
            return ""
        own = [fix for fix in fixes if fix.branch == release.branch]
        later = [fix for fix in fixes if fix.branch > release.branch]
        best = [*own, *later, *fixes][0]
        elsewhere = [f"{fix} on {fix.branch}" for fix in fixes if fix is not best]
        # Of the branches that never get it only those between others that do: they could be taken for later.
        between = [branch for branch in _branches() if fixes[0].branch < branch < fixes[-1].branch]
        unfixed = [str(branch) for branch in between if branch != release.branch and self._is_in(_last(branch))]
        rest = [", ".join(elsewhere)] if elsewhere else []
        rest += [f"no {' or '.join(unfixed)} has it"] if unfixed else []
        others = f" ({'; '.join(rest)})" if rest else ""
        if not own and self._is_in(_last(release.branch)):
            return f"No {release.branch} has the fix: upgrade to {best} or later{others}."
        return f"Upgrade to {best} or later{others}."


@cache
def _branches() -> tuple[Branch, ...]:
    """The branches that there are profiles for, the oldest first."""
    return tuple(dict.fromkeys(Release(profile.from_version).branch for profile in profiles().values()))


def _last(branch: Branch) -> Release:
    """A release after all of a branch."""
    return Release(f"{branch}.{sys.maxsize}")


def label(bug: str) -> str:
    """The label of a bug in tables: `#23870`, or an id without a public number and its issues: `F4 (#23307)`."""
    issues = catalogue()[bug].issues
    return bug if bug.startswith("#") or not issues else f"{bug} ({', '.join(issues)})"


def labels(bugs: Sequence[str]) -> str | None:
    """The labels of bugs as one column; None without bugs."""
    return ", ".join(map(label, bugs)) or None


def labels_in(column: str) -> list[str]:
    """The labels in a column that `labels` wrote."""
    return [found.strip() for found in _LABEL.findall(column)]


def titles(bugs: Sequence[str]) -> tuple[str, ...]:
    """The bugs, by their ids, as clauses, in their order."""
    entries = (catalogue()[bug] for bug in bugs)
    return tuple(f"known bug {bug.id}: {bug.title.removesuffix('.')}" for bug in entries)


def remedy(bugs: Sequence[str], release: Release) -> str:
    """What helps against bugs in sentences, each once; empty without bugs.

    Args:
        bugs: ids.
        release: the release of the broker, which decides what to upgrade to.
    """
    return " ".join(dict.fromkeys(catalogue()[bug].remedy_for(release) for bug in bugs))


@cache
def catalogue() -> Mapping[str, KnownBug]:
    """All known bugs by id, in the order of the file."""
    bugs = [KnownBug.model_validate(entry) for entry in known_bugs_file()["bug"]]
    by_id = {bug.id: bug for bug in bugs}
    assert len(by_id) == len(bugs), "two known bugs have the same id"
    return MappingProxyType(by_id)


def release_of(version: str | None, profile: Profile) -> Release:
    """The release of a broker.

    Args:
        version: its version. If it is none, or not known, the first release of the profile stands in for it.
        profile: the profile of the audit.
    """
    try:
        return Release(version or profile.from_version)
    except ValueError:
        return Release(profile.from_version)


@cache
def known_bugs(release: Release, dispatcher: Dispatcher) -> Mapping[str, KnownBug]:
    """The bugs that a broker of this release and dispatcher can have, by id."""
    bugs = {bug.id: bug for bug in catalogue().values() if bug.can_exist(release, dispatcher)}
    return MappingProxyType(bugs)


@cache
def bugs_by_symptom(release: Release, dispatcher: Dispatcher) -> Mapping[Symptom, tuple[str, ...]]:
    """The ids of the bugs that a broker of this release and dispatcher can have, by symptom."""
    bugs = known_bugs(release, dispatcher).values()
    ids = {known: tuple(bug.id for bug in bugs if known in bug.symptoms) for known in get_args(Symptom)}
    return MappingProxyType(ids)
