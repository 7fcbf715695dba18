"""Measures a simulation while it runs: stalls, queues, waiting, and at its end the whole."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dispatch_audit.pipeline.simulate.clients.client import Client
from dispatch_audit.pipeline.simulate.policies.policy import DispatcherPolicy
from dispatch_audit.pipeline.simulate.series import Series
from dispatch_audit.pipeline.simulate.state.dispatcher_state import Counters, DispatcherState

_NEVER = -1


@dataclass(slots=True)
class Measures:
    """The measures of a simulated partition.

    Attributes:
        entries: entries published.
        counters: what the dispatcher did.
        duplicates: entries sent again.
        never_sent: entries published and never sent.
        waited_us: time from publishing to the first sending, summed over the entries that were sent, and up to the end
            over the others.
        no_progress_us: time without progress for any consumer.
        stalled_at_us: when that first began; -1: never.
        replay_peak: the most entries in replay.
        ranges_peak: the most acknowledged ranges above mark-delete (ack holes).
        ended_us: time of the last acknowledgement.
        busy_us: time in which clients processed, summed.
        connected_us: time in which clients were connected, summed.
    """

    entries: int = 0
    counters: Counters = field(default_factory=Counters)
    duplicates: int = 0
    never_sent: int = 0
    waited_us: int = 0
    no_progress_us: int = 0
    stalled_at_us: int = _NEVER
    replay_peak: int = 0
    ranges_peak: int = 0
    ended_us: int = 0
    busy_us: int = 0
    connected_us: int = 0


class Progress:
    """Looks at a dispatcher every `INTERVAL_US`.

    Attributes:
        measures: complete after `finish`.
        series: queues and what was sent, over time.
    """

    INTERVAL_US = 100_000

    def __init__(self, state: DispatcherState, policy: DispatcherPolicy, stall_us: int) -> None:
        self._state = state
        self._policy = policy
        self._stall_us = stall_us
        self.measures = Measures(counters=state.counters)
        # Since when there were entries to send, and a consumer with permits.
        self._could_since_us = _NEVER
        self.series = Series(self.INTERVAL_US)

    def look(self) -> None:
        """Notes queues, and whether consumers with permits wait for entries that are not sent."""
        state, measures = self._state, self.measures
        now_us = state.agenda.now_us
        measures.connected_us += self.INTERVAL_US * len(state.consumers)
        # What an overflow ledger has is acknowledged at the cursor, but no consumer has done it.
        backlog = state.cursor.backlog + len(self._policy.holds)
        self.series.add(now_us, state.counters.sent, len(state.replay), backlog)
        if not self._somebody_could():
            self._could_since_us = _NEVER
            return
        if self._could_since_us == _NEVER:
            self._could_since_us = now_us
        since_us = max(state.last_sent_us, self._could_since_us)
        silent_us = now_us - since_us
        if silent_us < self._stall_us:
            return
        if measures.stalled_at_us == _NEVER:
            measures.stalled_at_us = since_us
        # The first look of a stall counts the time before it too.
        measures.no_progress_us += silent_us if silent_us < self._stall_us + self.INTERVAL_US else self.INTERVAL_US

    def acknowledged(self) -> None:
        """Notes that an acknowledgement arrived."""
        self.measures.ended_us = self._state.agenda.now_us

    def finish(self, over_us: int, clients: Sequence[Client], publish_us: Sequence[int]) -> None:
        """Completes `measures` at the end, `over_us`."""
        state, measures = self._state, self.measures
        measures.entries = state.cursor.end
        measures.replay_peak = state.replay.size_peak
        measures.ranges_peak = state.cursor.ranges_peak
        measures.busy_us = sum(client.busy_us for client in clients)
        published = publish_us[: measures.entries]
        sent = state.first_sent_us[: measures.entries]
        measures.never_sent = sent.count(-1)
        measures.duplicates = state.counters.sent - (measures.entries - measures.never_sent)
        measures.waited_us = sum(
            (at if at >= 0 else over_us) - since for at, since in zip(sent, published, strict=False)
        )

    def _somebody_could(self) -> bool:
        """Whether there are entries to read and a consumer with permits, or entries in replay for such a consumer."""
        state = self._state
        able = {consumer.number for consumer in state.consumers if not consumer.blocked and consumer.available() > 0}
        return bool(able) and (state.cursor.has_more or any(owner in able for owner in state.replay.by_owner))
