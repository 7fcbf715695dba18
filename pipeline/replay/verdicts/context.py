"""What the verdicts look at besides the finding itself: who came and left, and which flaws the broker can have."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from pipeline.contract.exceptions import ExceptionId
from pipeline.contract.known_bugs import Symptom, bugs_by_symptom
from pipeline.contract.rules import MISROUTED
from pipeline.replay.packing.membership_rows import TracePoint
from pipeline.replay.state.output import BY_RESET
from pipeline.replay.state.read_position import READ_US
from pipeline.replay.state.state import NOBODY, Ints
from pipeline.replay.subscription.config import ReplayConfig
from pipeline.replay.subscription.result import Joined, ReplayResult, Surplus


class FindingContext:
    """One replayed subscription and its broker.

    Attributes:
        found: what the replay found.
        exceptions: what may break the rules of its line legitimately.
        drains: whether it runs the draining dispatcher; the other one has recently joined consumers.
        skew_us: recorder skew.
    """

    def __init__(self, found: ReplayResult, config: ReplayConfig) -> None:
        self.found = found
        self._bugs = bugs_by_symptom(config.version, config.profile)
        self.exceptions: frozenset[ExceptionId] = frozenset(config.profile.exceptions)
        self.drains = config.profile.dispatcher == "draining"
        self.skew_us = config.skew_us

    def bugs_with(self, *symptoms: Symptom) -> tuple[str, ...]:
        """The flaws with these symptoms, in their order, that this broker can have (ids of `conf/known_bugs.toml`)."""
        return tuple(bug for symptom in symptoms for bug in self._bugs[symptom])

    def exception(self, exception: ExceptionId) -> ExceptionId | None:
        """The exception, if the contract of this broker has it."""
        return exception if exception in self.exceptions else None

    def joined(self, place: int) -> TracePoint | None:
        """Where a consumer joined; None before the trace began, or if it never did."""
        return None if place == NOBODY else self.found.stays[self.found.numbers[place]].joined

    def dispatcher_at_join(self, place: int) -> Joined:
        """Where the dispatcher stood when a consumer joined."""
        return self.found.joins[place]

    def left_between(self, after_seq: int, until_seq: int, but_for: int) -> bool:
        """Whether a consumer other than `but_for` left behind the one row and not behind the other."""
        seqs, places = self._leaves
        first, last = bisect_right(seqs, after_seq), bisect_left(seqs, until_seq)
        return any(place != but_for for place in places[first:last])

    @cached_property
    def _leaves(self) -> tuple[list[int], list[int]]:
        place_of = {number: place for place, number in enumerate(self.found.numbers)}
        left = [(s.left.seq, place_of[number]) for number, s in self.found.stays.items() if s.left is not None]
        return [seq for seq, _ in sorted(left)], [place for _, place in sorted(left)]

    def strayed(self, seq: int) -> bool:
        """Whether the dispatch went to somebody who did not own the hash for certain."""
        return seq in self._strays

    @cached_property
    def _strays(self) -> frozenset[int]:
        findings = self.found.findings
        strays = np.isin(findings.rule, MISROUTED)
        seq, hashes = findings.seq[strays], findings.hash[strays]
        known = ~self.found.doubts.which(seq, hashes)
        return frozenset(seq[known].tolist())

    def drained_before(self, finding: Any) -> bool:
        """Whether the hash stopped draining towards the receiver at most one read before it was sent the entry."""
        return any(
            to_seq < finding.seq and finding.ts_us - to_ts <= READ_US and new_owner == finding.consumer
            for to_seq, to_ts, new_owner in self._drained.get(int(finding.hash), ())
        )

    @cached_property
    def _drained(self) -> Mapping[int, list[tuple[int, int, int]]]:
        by_hash: dict[int, list[tuple[int, int, int]]] = {}
        # A reset starts everything anew, and so no read goes on over it.
        for episode in self.found.episodes[self.found.episodes.ended_by != BY_RESET]:
            ended = (int(episode.to_seq), int(episode.to_ts), int(episode.new_owner))
            by_hash.setdefault(int(episode.hash), []).append(ended)
        return by_hash

    def seqs_of(self, rule: int) -> Ints:
        """The dispatches that broke a rule."""
        seqs: Ints = self.found.findings.seq[self.found.findings.rule == rule]
        return seqs

    def surpluses_of(self, place: int) -> list[Surplus]:
        """What snapshots say of a consumer, in the order of seq."""
        return [surplus for surplus in self.found.surpluses if surplus.consumer == place]
