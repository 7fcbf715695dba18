"""What a simulated broker could have sent and did not: the truth that findings about stalls are compared with.

The simulation is looked at every `LOOK_US`. An entry could be sent if the contract (V10) has no reason why not.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.policies.draining import DrainingPolicy
from dispatch_audit.pipeline.simulate.policies.recently_joined import RecentlyJoinedPolicy
from dispatch_audit.pipeline.simulate.state.consumer import Consumer
from dispatch_audit.pipeline.simulate.state.dispatch_rates import RETRY_US

LOOK_US: Final = 50_000
NOTED_US: Final = 300_000
"""Shorter silences are not kept."""


@dataclass
class Span:
    """An interval in which entries could have been sent, in microseconds from the start."""

    from_us: int
    to_us: int
    entries: set[int] = field(default_factory=set)

    @property
    def lasted_us(self) -> int:
        """How long it lasted."""
        return self.to_us - self.from_us


class Truth:
    """Looks at a simulation that has not begun.

    Attributes:
        silences: nothing was sent to anybody although entries could have been sent.
        starved_us: of each entry the longest time in which it could have been sent and was not.
        over_consumer: the most messages that a consumer held beyond its limit.
        over_subscription: the same of the subscription.
    """

    def __init__(self, simulation: PartitionSimulation) -> None:
        self.silences: list[Span] = []
        self.starved_us: dict[int, int] = {}
        self.over_consumer = 0
        self.over_subscription = 0
        self._simulation = simulation
        self._could_since: dict[int, int] = {}
        self._silence: Span | None = None
        self._rates_reached = 0
        self._rates_reached_us = -RETRY_US * 2
        simulation.agenda.at(LOOK_US, self._look)

    def stalled(self, from_us: int, to_us: int, slack_us: int = 0) -> bool:
        """Whether a silence overlaps an interval."""
        return any(span.from_us - slack_us < to_us and from_us < span.to_us + slack_us for span in self.silences)

    @property
    def longest_us(self) -> int:
        """How long the longest silence lasted."""
        return max((span.lasted_us for span in self.silences), default=0)

    def _look(self, _: object) -> None:
        state = self._simulation.state
        now_us = state.agenda.now_us
        self._note_limits()
        able = set(self._able())
        for position in [position for position in self._could_since if position not in able]:
            del self._could_since[position]
        for position in able:
            since_us = self._could_since.setdefault(position, now_us)
            self.starved_us[position] = max(self.starved_us.get(position, 0), now_us - since_us)
        if able:
            self._note_silence(able)
        else:
            self._silence = None
        state.agenda.after(LOOK_US, self._look)

    def _note_silence(self, able: set[int]) -> None:
        state = self._simulation.state
        if self._silence is None or state.last_sent_us > self._silence.from_us:
            since_us = max(state.last_sent_us, min(self._could_since[position] for position in able))
            self._silence = Span(since_us, since_us)
        silence, before_us = self._silence, self._silence.lasted_us
        silence.to_us = state.agenda.now_us
        silence.entries |= able
        if before_us < NOTED_US <= silence.lasted_us:
            self.silences.append(silence)

    def _able(self) -> Iterator[int]:
        """The entries that could be sent now."""
        simulation = self._simulation
        state, policy, cursor = simulation.state, simulation.policy, simulation.cursor
        if not state.consumers or self._throttled():
            return
        reads = not policy.normal_reads_stop() and policy.normal_read_allowed()
        held = {position for consumer in state.consumers for position in consumer.pending}
        due = simulation.workload.deliver_at_us
        may_have = {consumer.number: self._may_have(consumer) for consumer in state.consumers}
        for position in range(cursor.mark_delete + 1, cursor.end):
            if cursor.acked[position] or position in held:
                continue
            if due is not None and self._waits_for_its_time(due[position]):
                continue
            if position not in state.replay.hash_of and not reads and position >= cursor.read_position:
                continue
            owner = state.selector.select(state.hashes[position])
            if owner is not None and may_have[owner] and not self._drains(owner, position):
                yield position

    def _waits_for_its_time(self, due_us: int) -> bool:
        """Whether a delayed entry may wait: the tracker runs once a tick."""
        state = self._simulation.state
        delayed = state.delayed
        return delayed is not None and delayed.enabled and due_us + 2 * delayed.tick_us > state.agenda.now_us

    def _may_have(self, consumer: Consumer) -> bool:
        policy = self._simulation.policy
        if consumer.blocked or consumer.available() <= 0:
            return False
        if isinstance(policy, RecentlyJoinedPolicy) and consumer.number in policy.recently:
            return policy.is_released(consumer)
        return True

    def _drains(self, owner: int, position: int) -> bool:
        policy = self._simulation.policy
        return isinstance(policy, DrainingPolicy) and policy.draining.blocks(
            owner, self._simulation.state.hashes[position]
        )

    def _throttled(self) -> bool:
        rates, now_us = self._simulation.state.rates, self._simulation.agenda.now_us
        if rates is None:
            return False
        if rates.reached > self._rates_reached:
            self._rates_reached, self._rates_reached_us = rates.reached, now_us
        return now_us - self._rates_reached_us <= RETRY_US + 2 * LOOK_US

    def _note_limits(self) -> None:
        state, faults = self._simulation.state, self._simulation.setup.faults
        limit = state.settings.unacked_per_subscription
        if limit:
            self.over_subscription = max(
                self.over_subscription, state.unacked - (limit - faults.over_subscription_limit)
            )
        for consumer in state.consumers:
            if consumer.unacked_max:
                over = consumer.unacked - (consumer.unacked_max - faults.over_consumer_limit)
                self.over_consumer = max(self.over_consumer, over)
