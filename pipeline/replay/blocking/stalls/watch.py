"""Follows the time in which nothing is sent to any consumer although entries wait, and says why when it is over.

It ends with the next dispatch, and with whatever takes the dispatcher or its consumers away: the leave of the last
consumer, a seek, unload or transfer, a gap, the end of the trace. The state is looked at before every change that hides
why nothing was sent. Consumers that leave within the recorder's skew after one another leave together, as when a broker
closes a topic: the state before the first leave counts.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval
from dispatch_audit.pipeline.replay.blocking.stalls.reported import LONG_AGO_US
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.blocking.stalls.stalls import stalled
from dispatch_audit.pipeline.replay.durations import BROUGHT_ABOUT_US, READ_AND_PAUSE_US
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.packing.snapshot import Position
from dispatch_audit.pipeline.replay.state.causes import Cause
from dispatch_audit.pipeline.replay.state.output import (
    BY_ACK,
    BY_DISPATCH,
    BY_LEAVE,
    BY_MARK_DELETE,
    BY_RESET,
)
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import common_of

# What takes entries that wait: a request to skip, and mark-delete in a snapshot, for which no row says why.
_SKIPS: Final = (BY_RESET, BY_MARK_DELETE)


@checkpointed("stall_watch")
@dataclass(eq=False, slots=True)
class StallWatch:
    """The current time without a dispatch, and what looks at the state found in it.

    Its methods take a function that returns the situation, because few rows need it.
    """

    _threshold_us: int  # the shortest time without a dispatch that is a stall
    _skew_us: int
    _explained: Blocked | None = None  # what the last look found that had a cause
    _unexplained: Blocked | None = None  # what the last look found that had no cause, and lasted as long as a stall
    _before_leaves: Blocked | None = None  # what was found before the first of the leaves that belong together
    _left_us: int = LONG_AGO_US  # the time of the last of these leaves
    _brought_about: tuple[int, int] = (0, BY_ACK)  # time and kind of the last change, perhaps the reason of a dispatch

    def suspend(self) -> None:
        """Forgets what was seen: rows are missing from here on."""
        self._explained = self._unexplained = self._before_leaves = None

    def forget_causes(self, causes: Collection[str]) -> None:
        """Forgets what was seen of causes that cannot be: the broker does not have the limit."""
        if self._explained is not None and self._explained.cause in causes:
            self._explained = None
        if self._before_leaves is not None and self._before_leaves.cause in causes:
            self._before_leaves = None

    def before_change(self, situation: Situation, at: TracePoint, ended_by: int, *, sure: bool = True) -> list[Blocked]:
        """Looks at the state before a change that may hide why nothing is sent: consumers join, leave or are ready.

        Unless it is `sure` that all entries that seem to wait do, only what explains the time counts.

        Returns:
            The stall that a skip has ended before, if nothing that waited in it waits any more.
        """
        skipped = self._ended_by_skip(_silent_since_us(situation.state))
        # However short the time is: it may become a stall a little later.
        interval = _idle_interval(situation.state, at, ended_by, 1)
        together = ended_by == BY_LEAVE and at.ts_us - self._left_us <= self._skew_us
        if not together:
            found = None if interval is None else self._look(interval, situation, sure=sure)
            self._before_leaves = found if ended_by == BY_LEAVE else None
        if ended_by == BY_LEAVE:
            self._left_us = at.ts_us
        self._brought_about = (at.ts_us, ended_by)
        return skipped

    def _ended_by_skip(self, since_us: int | None) -> list[Blocked]:
        """The stall in front of a skip, unless the silence goes on that it belongs to; then forgets it."""
        before = self._unexplained or self._explained
        if before is None or before.span.ended_by not in _SKIPS or before.span.from_ts == since_us:
            return []
        self._unexplained = self._explained = None
        return [before] if before.span.to_ts - before.span.from_ts >= self._threshold_us else []

    def before_release(self, situation: Situation, at: TracePoint) -> None:
        """Looks at the state in front of a row that takes entries from a consumer: who held them shows only there."""
        interval = _idle_interval(situation.state, at, BY_ACK, 1)
        if interval is not None:
            self._look(interval, situation)

    def _look(self, interval: Interval, situation: Situation, *, sure: bool = True) -> Blocked | None:
        """Remembers and returns why nothing is sent so far."""
        found = stalled(situation.over(interval))
        if found is None:
            return None
        if not found.is_finding:
            self._explained = found
        elif (
            sure and interval.to_ts - interval.from_ts >= self._threshold_us and self._still_explained(interval) is None
        ):
            before, cause = self._seen_in(interval, self._unexplained), self._seen_in(interval, self._explained)
            if not self._is_doubted_until(before, interval) and (
                before is None or cause is None or cause.span.to_ts <= before.span.to_ts
            ):
                self._unexplained = found
        return found

    def dispatched(self, situation: Situation, at: TracePoint, sent: Position) -> list[Blocked]:
        """The stall that the dispatch of the entry `sent` ends, in two parts if only its end has a cause."""
        when_us, ended_by = self._brought_about
        lately = at.ts_us - when_us < BROUGHT_ABOUT_US
        interval = _idle_interval(situation.state, at, ended_by if lately else BY_ACK, self._threshold_us)
        parts = [] if interval is None else self._of(interval, situation, sent)
        return [_ended_by_dispatch(part, at, lately) for part in parts]

    def over(self, situation: Situation, at: TracePoint, ended_by: int) -> list[Blocked]:
        """The stall that something else than a dispatch ends, as `dispatched`. Call before that changes the state."""
        interval = _idle_interval(situation.state, at, ended_by, self._threshold_us)
        return [] if interval is None else self._of(interval, situation)

    def _of(self, interval: Interval, situation: Situation, sent: Position | None = None) -> list[Blocked]:
        found = self._still_explained(interval) or self._just_before_leaves(interval)
        found = found or stalled(situation.over(interval, sent))
        skipped = self._ended_by_skip(interval.from_ts)
        before, cause = self._seen_in(interval, self._unexplained), self._seen_in(interval, self._explained)
        self._explained = self._unexplained = None
        if found is None or not found.is_finding:
            # What explains the rest of the time does not explain the time before.
            if before is not None:
                return [before, *self._rest(found, before, interval)]
            return skipped if found is None else [*skipped, found._replace(span=interval)]
        if before is not None and self._is_doubted_until(before, interval):
            found = before
        # A stall begins when a cause is over.
        if cause is not None:
            began = [before] if before is not None and before.span.to_ts < cause.span.to_ts else []
            lasted_us = cause.span.to_ts - (began[0].span.to_ts if began else interval.from_ts)
            rest = self._rest(found, cause, interval) if lasted_us > READ_AND_PAUSE_US else []
            if rest:
                return [*skipped, *began, _after(began[0], cause, cause.span) if began else cause, *rest]
        return [*skipped, found._replace(span=interval)]

    def _is_doubted_until(self, before: Blocked | None, interval: Interval) -> bool:
        """Whether something that perhaps held back at an earlier look, lately, counts: what ended it may be recent."""
        lately = before is not None and interval.to_ts - before.span.to_ts < self._threshold_us
        return before is not None and lately and not before.kind.provable

    @staticmethod
    def _seen_in(interval: Interval, seen: Blocked | None) -> Blocked | None:
        """What a look found, if it was in the same time without a dispatch."""
        return seen if seen is not None and seen.span.from_ts == interval.from_ts else None

    def _rest(self, found: Blocked | None, before: Blocked, interval: Interval) -> list[Blocked]:
        """What was found at the end of an interval, from the end of `before` on; empty if that is no stall."""
        if found is None or interval.to_ts - before.span.to_ts < self._threshold_us:
            return []
        return [_after(before, found, interval)]

    def _just_before_leaves(self, interval: Interval) -> Blocked | None:
        """What was seen before consumers left together, if the interval began before and ends with it."""
        together = interval.to_ts - self._left_us <= self._skew_us
        return self._seen_in(interval, self._before_leaves) if together else None

    def _still_explained(self, interval: Interval) -> Blocked | None:
        """What explained this interval until lately, if anything did; longer ago it explains nothing since."""
        seen = self._seen_in(interval, self._explained)
        return seen if seen is not None and interval.to_ts - seen.span.to_ts < self._threshold_us else None


def _after(before: Blocked, found: Blocked, interval: Interval) -> Blocked:
    """What was found at the end of an interval, from the end of `before` on."""
    rest = interval._replace(from_seq=before.span.to_seq, from_ts=before.span.to_ts)
    return found._replace(span=rest, waited_us=max(found.waited_us - before.waited_us, 0))


def _ended_by_dispatch(stall: Blocked, at: TracePoint, lately: bool) -> Blocked:
    """A stall after which sending went on; unless something happened `lately`, no event is the reason of that."""
    if stall.is_finding:
        stall = stall._replace(detail={**stall.detail, "went_on": True})
    # With other causes it waits for an acknowledgement.
    if lately or stall.span.to_ts != at.ts_us or stall.cause not in (Cause.UNEXPLAINED.word, Cause.DRAINING_STUCK.word):
        return stall
    return stall._replace(span=stall.span._replace(ended_by=BY_DISPATCH))


def _idle_interval(state: Seen, at: TracePoint, ended_by: int, shortest_us: int) -> Interval | None:
    """The time since the last dispatch while entries waited; None if it is shorter than `shortest_us`."""
    common, since_us = common_of(state), _silent_since_us(state)
    if since_us is None or at.ts_us - since_us < shortest_us:
        return None
    by_dispatch = common["last_dispatch"]["ts_us"] >= common["waiting_since"]["ts_us"]
    since_seq = common["last_dispatch" if by_dispatch else "waiting_since"]["seq"]
    return Interval(int(since_seq), since_us, at.seq, at.ts_us, ended_by)


def _silent_since_us(state: Seen) -> int | None:
    """Since when entries wait and nothing was sent to any consumer; None: nothing waits."""
    common = common_of(state)
    return int(max(common["last_dispatch"]["ts_us"], common["waiting_since"]["ts_us"])) if common["waiting"] else None
