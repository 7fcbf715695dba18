"""Releases of Pulsar, in their order, and the branches on which they were made.

A branch is a line such as 4.0, from which 4.0.8 and 4.0.14 were made. A change reaches each branch in a release of its
own or never: the ring of 3.0.7 is in no 3.1 and no 3.2. So lists of releases are by branch (`reached`), and nothing
asks whether one release has a higher number than a release of another branch.
"""

import re
from collections.abc import Sequence
from functools import total_ordering
from typing import NamedTuple

from dispatch_audit.pipeline.errors import DispatchAuditError

_MILESTONE = re.compile(r"M(\d+)\b")


class Branch(NamedTuple):
    """A line of Pulsar: 4.0."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@total_ordering
class Release:
    """One release: 4.0.8, or 5.0.0-M1, a milestone before 5.0.0.

    Attributes:
        text: as it was given.
        branch: the branch on which it was made.
    """

    def __init__(self, text: str) -> None:
        """Reads the text of a release; what follows a hyphen and is no milestone (`-SNAPSHOT`, `-rc-1`) is left out.

        Raises:
            ValueError: it is no release.
        """
        numbers, _, suffix = text.partition("-")
        parts = [int(part) for part in numbers.split(".")]
        # Without the zeros 4.0 would count as older than 4.0.0.
        parts += [0] * (3 - len(parts))
        milestone = _MILESTONE.match(suffix)
        self.text = text
        self.branch = Branch(parts[0], parts[1])
        # A milestone comes before the release that has its numbers.
        self._order = (*parts, 0, int(milestone[1])) if milestone else (*parts, 1, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Release) and self._order == other._order

    def __lt__(self, other: "Release") -> bool:
        return self._order < other._order

    def __hash__(self) -> int:
        return hash(self._order)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Release({self.text!r})"


def reached(release: Release, by_branch: Sequence[Release]) -> bool:
    """Whether a change is in a release.

    Args:
        release: the release that is asked about.
        by_branch: the first release of each branch that has the change. Branches after the last one that is named have
            it from their beginning; a branch that is not named, and before the last one, never got it.
    """
    for first in by_branch:
        if first.branch == release.branch:
            return release >= first
    return bool(by_branch) and release.branch > by_branch[-1].branch


def by_branch(texts: Sequence[str], of: str) -> tuple[Release, ...]:
    """The releases of a list by branch, which are ascending.

    Raises:
        DispatchAuditError: one is no release, or they are not one for each branch, ascending. `of` names the list.
    """
    try:
        releases = tuple(map(Release, texts))
    except ValueError:
        raise DispatchAuditError(f"{of} lists what is no release: {', '.join(texts)}", "correct the list") from None
    branches = [release.branch for release in releases]
    if branches != sorted(set(branches)):
        raise DispatchAuditError(
            f"{of} is not one release for each branch, the oldest branch first: {', '.join(texts)}", "correct the list"
        )
    return releases
