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
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.packing.snapshot import Position
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval
from dispatch_audit.pipeline.replay.blocking.stalls.reported import LONG_AGO_US
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.blocking.stalls.stalls import stalled
from dispatch_audit.pipeline.replay.durations import BROUGHT_ABOUT_US, READ_AND_PAUSE_US
from dispatch_audit.pipeline.replay.state.output import By
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.state import Seen, common_of
from dispatch_audit.pipeline.replay.state.values import Cause

# What takes entries that wait: a request to skip, and mark-delete in a snapshot, for which no row says why.
_SKIPS: Final = (By.RESET, By.MARK_DELETE)


@checkpointed("stall_watch")
@dataclass(eq=False, slots=True)
class StallWatch:
    """The current time without a dispatch, and what looks at the state found in it."""

    _threshold_us: int  # the shortest time without a dispatch that is a stall
    _skew_us: int
    _explained: Blocked | None = None  # what the last look found that had a cause
    _unexplained: Blocked | None = None  # what the last look found that had no cause, and lasted as long as a stall
    _doubted: Blocked | None = None  # what the last look found that was not provable, and lasted
    _last: Blocked | None = None  # what the last look found
    _left_us: int = LONG_AGO_US  # the time of the last leave
    _over_seq: int = UNKNOWN  # the row that ended a time without a dispatch last
    _looked_us: int = LONG_AGO_US  # the time of the last change that was looked at
    _brought_about: tuple[int, int] = (0, By.ACK)  # time and kind of the last change, perhaps the reason of a dispatch

    def suspend(self) -> None:
        """Forgets what was seen: rows are missing from here on."""
        self._explained = self._unexplained = self._doubted = self._last = None

    def forget_causes(self, causes: Collection[str]) -> None:
        """Forgets what was seen of causes that cannot be: the broker does not have the limit."""
        if self._explained is not None and self._explained.cause in causes:
            self._explained = None
        if self._last is not None and self._last.cause in causes:
            self._last = None

    def before_change(self, situation: Situation, at: TracePoint, ended_by: int) -> list[Blocked]:
        """Looks at the state before a change that may hide why nothing is sent: consumers join, leave or are ready.

        Returns:
            The stall that a skip has ended before, if nothing that waited in it waits any more.
        """
        skipped, leaves = self._turn_to(situation), ended_by == By.LEAVE
        # What has just come with another change explains nothing.
        at_once = at.ts_us - self._looked_us < READ_AND_PAUSE_US and ended_by not in _SKIPS
        if not (at_once or (leaves and at.ts_us - self._left_us <= self._skew_us)):
            self._look(situation, at, ended_by)
            self._looked_us = at.ts_us
        if leaves:
            self._left_us = at.ts_us
        self._brought_about = (at.ts_us, ended_by)
        return skipped

    def before_release(self, situation: Situation, at: TracePoint) -> list[Blocked]:
        """The same in front of a row that takes entries from a consumer: who held them shows only there."""
        skipped = self._turn_to(situation)
        self._look(situation, at, By.ACK)
        return skipped

    def _turn_to(self, situation: Situation) -> list[Blocked]:
        """Forgets what was seen in an earlier time without a dispatch; returns the stall that a skip ended there."""
        seen = self._unexplained or self._explained or self._last
        if seen is None or seen.span.from_ts == _silent_since_us(situation.state):
            return []
        self.suspend()
        is_stall = seen.span.to_ts - seen.span.from_ts >= self._threshold_us
        # What a reset ends is reported with it; then consumers that could be sent nothing let it look once more.
        is_new = seen.span.to_seq != self._over_seq
        return [seen] if is_stall and is_new and seen.span.ended_by in _SKIPS else []

    def _look(self, situation: Situation, at: TracePoint, ended_by: int) -> None:
        """Remembers why nothing is sent so far, however short the time is: it may become a stall a little later."""
        interval = _idle_interval(situation.state, at, ended_by, 1)
        found = self._last = None if interval is None else stalled(situation.over(interval))
        if found is None:
            return
        lasted_us, doubted = at.ts_us - found.span.from_ts, self._lately_doubted(at)
        if not found.is_finding:
            self._explained = found
            return
        if lasted_us >= READ_AND_PAUSE_US and not found.kind.provable:
            self._doubted = found
        if lasted_us >= self._threshold_us and self._still_explained(at) is None:
            before, cause = self._unexplained, self._explained
            is_first = before is None or cause is None or cause.span.to_ts <= before.span.to_ts
            if is_first and doubted is None:
                self._unexplained = found

    def dispatched(self, situation: Situation, at: TracePoint, sent: Position) -> list[Blocked]:
        """The stall that the dispatch of the entry `sent` ends, in two parts if only its end has a cause."""
        when_us, ended_by = self._brought_about
        lately = at.ts_us - when_us < BROUGHT_ABOUT_US
        parts = self.over(situation, at, ended_by if lately else By.ACK, sent)
        return [_ended_by_dispatch(part, at, lately) for part in parts]

    def over(self, situation: Situation, at: TracePoint, ended_by: int, sent: Position | None = None) -> list[Blocked]:
        """The stall that something else than a dispatch ends, as `dispatched`. Call before that changes the state."""
        skipped = self._turn_to(situation)
        interval = _idle_interval(situation.state, at, ended_by, self._threshold_us)
        if interval is None:
            return skipped
        before_leaves = self._last if at.ts_us - self._left_us <= self._skew_us else None
        found = self._still_explained(at) or before_leaves or stalled(situation.over(interval, sent))
        before, cause, doubted = self._unexplained, self._explained, self._lately_doubted(at)
        self._over_seq = at.seq
        self.suspend()
        if found is None or not found.is_finding:
            # What explains the rest of the time does not explain the time before.
            if before is not None:
                return [*skipped, before, *self._rest(found, before, interval)]
            return skipped if found is None else [*skipped, found._replace(span=interval)]
        if doubted is not None:
            found = doubted._replace(entries=found.entries, waited_us=found.waited_us, roots=found.roots)
        # A stall begins when a cause is over.
        if cause is not None:
            began = [before] if before is not None and before.span.to_ts < cause.span.to_ts else []
            lasted_us = cause.span.to_ts - (began[0].span.to_ts if began else interval.from_ts)
            rest = self._rest(found, cause, interval) if lasted_us > READ_AND_PAUSE_US else []
            if rest:
                return [*skipped, *began, _after(began[0], cause, cause.span) if began else cause, *rest]
        return [*skipped, found._replace(span=interval)]

    def _rest(self, found: Blocked | None, before: Blocked, interval: Interval) -> list[Blocked]:
        """What was found at the end of an interval, from the end of `before` on; empty if that is no stall."""
        if found is None or interval.to_ts - before.span.to_ts < self._threshold_us:
            return []
        return [_after(before, found, interval)]

    def _lately_doubted(self, at: TracePoint) -> Blocked | None:
        """What an earlier look found, if something perhaps held back until lately: what ended that may be recent."""
        return self._lately(self._doubted, at)

    def _still_explained(self, at: TracePoint) -> Blocked | None:
        """What explained the time until lately, if anything did; longer ago it explains nothing since."""
        return self._lately(self._explained, at)

    def _lately(self, seen: Blocked | None, at: TracePoint) -> Blocked | None:
        return seen if seen is not None and at.ts_us - seen.span.to_ts < self._threshold_us else None


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
    return stall._replace(span=stall.span._replace(ended_by=By.DISPATCH))


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
