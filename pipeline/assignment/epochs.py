"""Turns the membership changes of one subscription into its epochs.

An epoch is the time between two membership changes of one subscription on one topic partition; the assignment does not
change within it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from dispatch_audit.pipeline.assignment.join_orders import Burst
from dispatch_audit.pipeline.assignment.ranges.hash_ranges import ALL_HASHES, HashRanges, union
from dispatch_audit.pipeline.assignment.ranges.membership_change import Change
from dispatch_audit.pipeline.assignment.ranges.observed import MISTAKES, Observed
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.ranges.routing import Routing, hashes_moved
from dispatch_audit.pipeline.assignment.resolve import Resolved, doubtful, resolve
from dispatch_audit.pipeline.assignment.selectors.factory import DEFAULT_POINTS, make_selector, slot_range
from dispatch_audit.pipeline.assignment.selectors.selector import Selector, with_change
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.profile import Profile, SelectorKind


@checkpointed("undecided")
class Undecided(NamedTuple):
    """The hashes whose owner is open, as ranges, and the reason as a clause."""

    ranges: HashRanges
    because: str


DECIDED = Undecided((), "")

ADOPTED: Final = "snapshot"
"""The change that begins an epoch whose assignment a snapshot shows, because joins or leaves are missing."""
_JOINS_MISSING: Final = "the trace does not show in which order the consumers of the first snapshot joined"


@checkpointed("epoch")
@dataclass(frozen=True)
class Epoch:
    """One epoch.

    Attributes:
        number: counts from 0; the first epoch begins with the first join.
        from_seq: the seq of the change that begins it.
        change: the change that begins it, in words: `join c3`, `leave c1`, `reset` or `snapshot` (`ADOPTED`).
        hashes_moved: how many hashes got another owner. Nobody counts as an owner, so the first join moves all hashes.
        owned: the assignment, in the form in which the broker reports it.
        names: the name of each connected consumer.
        undecided: the hashes that possible orders of overlapping changes give to different consumers.
    """

    number: int
    from_seq: int
    change: str
    hashes_moved: int
    owned: ReportedRanges
    names: Mapping[int, str]
    undecided: Undecided = DECIDED


@checkpointed("assignment_log")
class AssignmentLog:
    """The epochs of one subscription, in the order of its membership changes.

    Closed epochs are kept until `take_closed` returns them, so memory does not grow with the trace.

    Attributes:
        routing: the assignment in force, as the replay looks it up.
        promised: the routing that the contract requires if the selector has a flaw, else None (`Selector.promised`).
        current: the open epoch; None before the first join.
        undecided: the hashes whose owner is open at present, because the order of joins is.
    """

    __slots__ = (
        "_closed",
        "_complete",
        "_names",
        "_next",
        "_others",
        "_selector",
        "_settings",
        "current",
        "promised",
        "routing",
        "undecided",
    )

    def __init__(
        self, kind: SelectorKind, points: int = DEFAULT_POINTS, profile: Profile | str | None = None, first: int = 0
    ) -> None:
        """Starts without consumers; `first` is the number of the first epoch, the others are of `make_selector`."""
        self._settings = (kind, profile)
        self._selector = make_selector(kind, points, profile)
        # The other possible assignments; none if the order of all changes is known.
        self._others: list[Selector] = []
        self._complete = True
        self._names: dict[int, str] = {}
        self._closed: list[Epoch] = []
        self._next = first
        self.routing: Routing = self._selector.routing()
        self.promised: Routing | None = None
        self.current: Epoch | None = None
        self.undecided: HashRanges = ()

    def resolve(self, burst: Burst, nodes_max: int) -> Resolved:
        """Puts membership changes that are new to this log in order; see `resolve.resolve`."""
        roots = [self._selector, *self._others]
        if len(burst.changes) > 1 or self._others:
            resolved = resolve(roots, burst, nodes_max)
        else:
            selector = with_change(self._selector.copy(), burst.changes[0])
            disputed = union(selector.disputed())
            resolved = Resolved([0], [self._selector, selector], [self.undecided, disputed], [], [selector], True)
        if not len(resolved.possible[0]):
            # Without consumers there is one assignment, whatever happened before.
            return resolved._replace(undecided=[*resolved.undecided[:-1], ()], complete=True)
        reported = burst.observed.reported
        shown = reported is not None and resolved.possible[0].agrees(reported)
        if self._complete or (resolved.complete and shown):
            return resolved
        # Without a report that shows the assignment, the owners stay open.
        return resolved._replace(undecided=[ALL_HASHES] * len(resolved.undecided), complete=False)

    def enter(self, change: Change, selector: Selector, undecided: Undecided, seq: int) -> bool:
        """Starts the epoch after a change.

        Args:
            change: the next change in order.
            selector: the selector after the change.
            undecided: the hashes whose owner is open then.
            seq: the seq of the change.

        Returns:
            Whether the change starts another epoch; a join that the selector refused, or a leave of a consumer that is
            not connected, does not.
        """
        if change.kind == "reset":
            happened, words = bool(self._names), "reset"
            self._names.clear()
        elif change.kind == "leave":
            happened = change.consumer in self._names
            words = f"leave {self._names.pop(change.consumer, change.name)}"
        else:
            happened = change.consumer not in self._names and change.consumer in selector
            words = f"join {change.name}"
            if happened:
                self._names[change.consumer] = change.name
        self._selector = selector
        if happened:
            self._begin(words, seq, undecided)
        return happened

    def settle(self, resolved: Resolved) -> None:
        """Takes the assignments that are possible after the last of the changes."""
        entered = self._selector
        self._selector, *self._others = resolved.possible
        self._complete = resolved.complete
        self.undecided = resolved.undecided[-1]
        self._correct(self._selector is not entered)

    def learn(self, observed: Observed) -> bool:
        """Takes observations of the assignment in force; returns whether they correct the open epoch."""
        if not self.undecided:
            return False
        reported = observed.reported
        possible = [self._selector, *self._others]
        if reported is not None:
            for selector in possible:
                selector.learn(reported.owner_of_range)
            agreeing = [selector for selector in possible if selector.agrees(reported)]
            if not agreeing and self._selector.adopt(reported):
                agreeing = [self._selector]
            if not agreeing:
                return False
            possible, self._complete = agreeing, True
        else:
            counts = [observed.sent.unexplained(selector.routing()) for selector in possible]
            possible = [
                selector for selector, count in zip(possible, counts, strict=True) if count <= min(counts) + MISTAKES
            ]
            for selector in possible:
                selector.learn(observed.owner_of_range)
        self._selector, *self._others = possible
        self.undecided = doubtful(possible) if self._complete else ALL_HASHES
        return self._correct(perhaps_moved=True)

    def adopt(self, names: Mapping[int, str], reported: ReportedRanges, seq: int) -> bool:
        """Begins an epoch with the assignment that the broker reports, whatever joins and leaves led to it.

        Args:
            names: the name of each connected consumer.
            reported: their ranges.
            seq: the seq of the report.

        Returns:
            Whether the selector can give these ranges to these consumers; otherwise nothing changes.
        """
        selector = self._selector.emptied()
        for consumer, name in names.items():
            ranges = sorted(reported.by_consumer.get(consumer, ()))
            with_change(selector, Change("join", consumer, name, ranges))
        if not (selector.adopt(reported) or selector.agrees(reported)):
            return False
        self._selector, self._others, self._complete, self._names = selector, [], True, dict(names)
        self._begin(ADOPTED, seq, Undecided(doubtful([selector]), _JOINS_MISSING))
        return True

    def take_closed(self) -> list[Epoch]:
        """The epochs that ended since the last call, in order."""
        taken, self._closed = self._closed, []
        return taken

    def _begin(self, change: str, seq: int, undecided: Undecided) -> None:
        before, self.routing = self.routing, self._selector.routing()
        self.promised = self._selector.promised()
        if self.current is not None:
            self._closed.append(self.current)
        self.undecided = undecided.ranges
        self.current = Epoch(
            number=self._next,
            from_seq=seq,
            change=change,
            hashes_moved=hashes_moved(before, self.routing, slot_range(*self._settings)),
            owned=self._selector.ranges(),
            names=dict(self._names),
            undecided=undecided,
        )
        self._next += 1

    def _correct(self, perhaps_moved: bool) -> bool:
        """Updates the open epoch from the selector, whose ranges may have changed; returns whether they have."""
        if self.current is None:
            return False
        owned = self._selector.ranges() if perhaps_moved else self.current.owned
        corrected = owned != self.current.owned
        before = self.current.undecided
        if not corrected and self.undecided == before.ranges:
            return False
        # Ranges that were open before stay doubtful for the whole epoch.
        undecided = union([*before.ranges, *self.undecided]) if corrected else self.undecided
        self.current = replace(self.current, owned=owned, undecided=before._replace(ranges=undecided))
        if corrected:
            self.routing, self.promised = self._selector.routing(), self._selector.promised()
        return corrected
