"""What a simulated broker could have sent and did not: the truth that findings about stalls are compared with.

The simulation is looked at every `LOOK_US`. An entry could be sent if the contract (V10) has no reason why not.
"""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from drawn_schedules import DELAYED_DELIVERY, PER_CONSUMER, PER_SUBSCRIPTION
from passed_over import PassedOver

from dispatch_audit.pipeline.replay.durations import READ_US
from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.policies.draining import DrainingPolicy
from dispatch_audit.pipeline.simulate.policies.recently_joined import RecentlyJoinedPolicy
from dispatch_audit.pipeline.simulate.state.consumer import Consumer
from dispatch_audit.pipeline.simulate.state.delayed_entries import NOT_DELAYED
from dispatch_audit.pipeline.simulate.state.dispatch_rates import RETRY_US

LOOK_US: Final = 50_000
THRESHOLD_US: Final = 1_000_000
"""`blocking.stall_threshold_ms`."""
NOTED_US: Final = 300_000
"""Shorter silences are not kept."""
SHORT_CAUSE_US: Final = 100_000
"""A cause of that length does not explain the time before and after it (docs/BLOCKING.md)."""
_SKIPS: Final = frozenset({"expire", "skip", "clear"})
_RESETS: Final = _SKIPS | {"unload", "seek"}
_AROUND_US: Final = 200_000
_READ_AND_PAUSE_US: Final = 100_000
"""A read that brings nothing to send, and the pause after it (contract 4.9, 6.6), with as much again for the rows."""


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


@dataclass
class _Full:
    """The subscription at its limit of unacknowledged messages; nothing from `unread` on was read before."""

    limit: int
    since_us: int
    unread: int | None = None


class Silences:
    """The intervals in which entries could have been sent and nothing was sent to anybody.

    Attributes:
        spans: those of at least `NOTED_US`, in their order.
    """

    def __init__(self, bridged_us: int = 0) -> None:
        """Takes the longest time within an interval in which nothing could have been sent."""
        self._bridged_us = bridged_us
        self.spans: list[Span] = []
        self._could_since: dict[int, int] = {}
        self._now: Span | None = None

    def longest_between(self, from_us: int, to_us: int) -> int:
        """How much of the longest one lies between two times."""
        return max((min(span.to_us, to_us) - max(span.from_us, from_us) for span in self.spans), default=0)

    def look(self, able: set[int], now_us: int, last_sent_us: int) -> None:
        """Notes which entries could be sent now, and when the last one was sent."""
        self._could_since = {position: self._could_since.get(position, now_us) for position in able}
        if not able:
            if self._now is not None and now_us - self._now.to_us > self._bridged_us:
                self._now = None
            return
        if self._now is None or last_sent_us > self._now.from_us:
            since_us = max(last_sent_us, min(self._could_since.values()))
            self._now = Span(since_us, since_us)
        before_us = self._now.lasted_us
        self._now.to_us = now_us
        self._now.entries |= able
        if before_us < NOTED_US <= self._now.lasted_us:
            self.spans.append(self._now)


class Truth:
    """Looks at a simulation that has not begun.

    Attributes:
        silences: nothing was sent to anybody although entries could have been sent, short causes aside: a consumer that
            has just joined has no permits for a moment, which explains nothing of the rest (docs/BLOCKING.md).
        certain: the same without pauses, of entries of which rows show that they could: no reset has come since they
            were published, their delay is over, and no look-ahead limit keeps a sound broker from reading them.
        passed_over: the entries in replay past which their owners were sent later ones.
        over_consumer: the most entries of one message that a consumer held beyond its limit, without those that an
            administrator may have skipped (E6): rows do not show which these were, and a read that may have had them
            may last for `READ_US`.
        over_subscription: the most entries that were certainly read while the subscription was at its limit: they
            were published later, or a snapshot has a read position before them since it was.
    """

    def __init__(self, simulation: PartitionSimulation) -> None:
        self.silences = Silences(SHORT_CAUSE_US)
        self.certain = Silences()
        self.passed_over = PassedOver(simulation)
        self._grown: list[tuple[int, int]] = []
        self._read_for: dict[int, int | None] = {}
        self._short_since_us: dict[int, tuple[int, frozenset[int]]] = {}
        self._full: _Full | None = None
        self._held: dict[int, int] = {}
        self._shown_read = 0
        self._shown_at_join: dict[int, int] = {}
        self._read_before = -1
        self.over_consumer = 0
        self._held_before: set[int] = set()
        self.over_subscription = 0
        self._simulation = simulation
        self._could_us: defaultdict[int, list[int]] = defaultdict(list)
        self._resets_us = [action.at_us for action in simulation.workload.actions if action.kind in _RESETS]
        self._skips_us = [action.at_us for action in simulation.workload.actions if action.kind in _SKIPS]
        self._maybe_skipped: set[int] = set()
        self._rates_reached = 0
        self._rates_reached_us = -RETRY_US * 2
        simulation.agenda.at(LOOK_US, self._look)

    def _look(self, _: object) -> None:
        state = self._simulation.state
        now_us, last_us = state.agenda.now_us, state.last_sent_us
        held = {position for consumer in state.consumers for position in consumer.pending}
        owners = {position: state.selector.select(state.hashes[position]) for position in state.replay.hash_of}
        self._note_limits(now_us, held)
        self._note_growth(now_us, held, owners)
        self.passed_over.look(now_us, owners, self._held_before)
        self._held_before = held
        able = set(self._able(held))
        self._read_before = self._simulation.cursor.read_position
        # A rate limit explains a silence, and not that later entries are sent instead.
        for position in able:
            self._could_us[position].append(now_us)
        if self._throttled():
            able = set()
        self.silences.look(able, now_us, last_us)
        first, policy = self._first_known(now_us), self._simulation.policy
        # Nothing is read while the subscription is at its limit, and rows do not show all that was read before.
        shown = {
            position
            for position in (() if self._is_behind_full_replay(able) else able)
            if position >= first
            and self._is_shown_due(position, now_us)
            and not self._may_be_read_yet(position)
            and not (policy.normal_reads_stop() and position >= self._shown_read)
        }
        self.certain.look(shown, now_us, last_us)
        state.agenda.after(LOOK_US, self._look)

    def could_be_sent_us(self, position: int, from_us: int, to_us: int) -> int:
        """For how long an entry could have been sent and was not, between two times: not always at one time."""
        looks = self._could_us[position]
        return (bisect_right(looks, to_us) - bisect_left(looks, from_us)) * LOOK_US

    def _able(self, held: Set[int]) -> Iterator[int]:
        """The entries that could be sent now."""
        simulation = self._simulation
        state, policy, cursor = simulation.state, simulation.policy, simulation.cursor
        if not state.consumers:
            return
        # While the cursor moves, what it has not come to waits for the reads before it.
        stands = cursor.read_position == self._read_before
        reads = not policy.normal_reads_stop() and self._may_read() and stands
        # One that is blocked may be sent something whenever the broker reads for others (4.2, 4.8).
        reads_on = state.agenda.now_us - state.last_sent_us <= LOOK_US
        served = {c.number: c for c in state.consumers if (reads_on or not c.blocked) and c.available() > 0}
        for position in range(cursor.mark_delete + 1, cursor.end):
            if cursor.acked[position] or position in held:
                continue
            if self._waits_for_its_time(position):
                continue
            if position not in state.replay.hash_of and not reads and position >= cursor.read_position:
                continue
            owner = state.selector.select(state.hashes[position])
            consumer = None if owner is None else served.get(owner)
            if consumer is not None and not self._waits(consumer, position):
                yield position

    def _may_read(self) -> bool:
        """Whether the contract lets normal reads go on (6.2); whoever F8 has not released counts as released."""
        policy = self._simulation.policy
        if not isinstance(policy, RecentlyJoinedPolicy):
            return policy.normal_read_allowed()
        held_back = {number for number, consumer in policy.recently.items() if not policy.is_released(consumer)}
        consumers = self._simulation.state.consumers
        return any(not c.blocked and c.permits > 0 and c.number not in held_back for c in consumers)

    def _waits_for_its_time(self, position: int) -> bool:
        """Whether a delayed entry waits: it counts as due a tick early, and the tracker runs once a tick."""
        now_us, delayed = self._simulation.agenda.now_us, self._simulation.state.delayed
        due_us = self._due_us(position)
        if delayed is None or not delayed.enabled or due_us == NOT_DELAYED or due_us + delayed.tick_us <= now_us:
            return False
        return due_us > now_us + delayed.tick_us or position in delayed.positions

    def _due_us(self, position: int) -> int:
        due = self._simulation.workload.deliver_at_us
        return NOT_DELAYED if due is None else due[position]

    def _waits_for_older(self, consumer: Consumer, position: int) -> bool:
        """Whether a recently joined consumer must wait until older entries are acknowledged (contract 6.1)."""
        policy = self._simulation.policy
        if not isinstance(policy, RecentlyJoinedPolicy) or consumer.number not in policy.recently:
            return False
        if policy.is_released(consumer):
            return False
        # Rows show the order of the joins, in which a sound broker remembers and releases them, and no other one (F8).
        first = min((c for c in policy.recently.values() if not policy.is_released(c)), key=lambda c: c.number)
        return position >= min(consumer.joined_at, first.joined_at)

    def _waits(self, consumer: Consumer, position: int) -> bool:
        """Whether the contract makes an entry wait for what another consumer holds."""
        policy = self._simulation.policy
        if isinstance(policy, DrainingPolicy):
            return policy.draining.blocks(consumer.number, self._simulation.state.hashes[position])
        return self._waits_for_older(consumer, position)

    def _throttled(self) -> bool:
        """Whether a limit of the dispatch rate has held up the last read, or is asked again a period after it did."""
        rates, now_us = self._simulation.state.rates, self._simulation.agenda.now_us
        if rates is None:
            return False
        if rates.reached > self._rates_reached:
            self._rates_reached, self._rates_reached_us = rates.reached, now_us
        sent_since = self._simulation.state.last_sent_us > self._rates_reached_us
        return not sent_since and now_us - self._rates_reached_us <= RETRY_US + 2 * LOOK_US

    def _is_snapshot(self, now_us: int) -> bool:
        every_us = self._simulation.setup.stats_us
        return bool(every_us) and now_us % every_us == 0

    def _note_growth(self, now_us: int, held: Set[int], owners: Mapping[int, int | None]) -> None:
        state, cursor = self._simulation.state, self._simulation.cursor
        sent = max(held, default=-1)
        self._shown_read = max(self._shown_read, sent, cursor.read_position if self._is_snapshot(now_us) else 0)
        # One that holds entries that it did not hold before was sent something since.
        short = {c.number: frozenset(c.pending) for c in state.consumers if self._is_shown_short(c)}
        before = self._short_since_us
        self._short_since_us = {
            number: (before[number][0] if number in before and has <= before[number][1] else now_us, has)
            for number, has in short.items()
        }
        policy = self._simulation.policy
        for number in policy.recently if isinstance(policy, RecentlyJoinedPolicy) else ():
            self._shown_at_join.setdefault(number, self._shown_read)
        first = self._first_known(now_us)
        # Those that a change of members gave to another owner were not put into replay for that one.
        self._read_for = {position: self._read_for.get(position, owner) for position, owner in owners.items()}
        shown = Counter(
            owner
            for position, owner in owners.items()
            if first <= position < self._shown_read
            and self._read_for[position] == owner
            and self._is_shown_due(position, now_us)
        )
        for number, (since_us, _) in self._short_since_us.items():
            if now_us - since_us >= THRESHOLD_US + LOOK_US and shown[number] > self.grown_until(now_us):
                self._grown.append((now_us, shown[number]))

    def grown_until(self, last_us: int) -> int:
        """The most entries that rows show to be in replay for a consumer that was sent nothing for `THRESHOLD_US`.

        An entry after each was sent, or a snapshot has a later read position, and no reset has come since they were
        published. Rows show that the consumer was able to take nothing.

        Args:
            last_us: of the last row; nobody sees more.
        """
        return max((entries for at_us, entries in self._grown if at_us <= last_us), default=0)

    def _first_known(self, now_us: int) -> int:
        """The first of the entries that rows show to wait: no reset has come since they were published."""
        reset_us = max((at_us for at_us in self._resets_us if at_us <= now_us), default=-1)
        # Hooks run on several threads, so what was published just before may be a row after it and the other way round.
        return bisect_right(self._simulation.workload.publish_us, reset_us + _AROUND_US)

    def _is_shown_due(self, position: int, now_us: int) -> bool:
        """Whether rows show that a delay is over: its time has come, or a row has switched delayed delivery off."""
        simulation, due_us = self._simulation, self._due_us(position)
        setup = simulation.setup
        if due_us == NOT_DELAYED or due_us + setup.settings.tick_us <= now_us:
            return True
        if simulation.state.delayed is None or simulation.state.delayed.enabled:
            return False
        changed_us = self._changed_us(DELAYED_DELIVERY, now_us, default=now_us)
        return self._is_said(changed_us, now_us) and setup.recorded_settings != "not"

    def _changed_us(self, name: str, now_us: int, default: int) -> int:
        """When a setting last changed."""
        actions = self._simulation.workload.actions
        return max((a.at_us for a in actions if a.at_us <= now_us and name in (a.settings or ())), default=default)

    def _is_said(self, changed_us: int, now_us: int) -> bool:
        """Whether rows have what has changed, if there are any: the recorder may look only now and then."""
        setup = self._simulation.setup
        return setup.recorded_settings != "late" or now_us // setup.settings_us * setup.settings_us >= changed_us

    def _is_certain(self, name: str, from_us: int, now_us: int) -> bool:
        """Whether rows leave open at no time between two that another value of a setting was in force.

        A recorder that looks now and then does so between the looks before and after a change.
        """
        setup, actions = self._simulation.setup, self._simulation.workload.actions
        if setup.recorded_settings != "late":
            return True
        begin_us, end_us = from_us // setup.settings_us * setup.settings_us, now_us + setup.settings_us
        return not any(begin_us < a.at_us <= end_us and name in (a.settings or ()) for a in actions)

    def _may_be_read_yet(self, position: int) -> bool:
        """Whether reads may be on their way to an entry, as far as rows without snapshots show.

        While the dispatcher remembers recently joined consumers, each waiting entry before it may take a read and a
        pause (contract 6.2). Where a skip has released them, no row shows it. And a consumer that has joined recently
        gets nothing from the read position of its join on: rows show that position to be after what was sent by then,
        and not that it is after entries that were read and not sent.
        """
        simulation = self._simulation
        policy, cursor, state = simulation.policy, simulation.cursor, simulation.state
        if simulation.setup.stats_us or not isinstance(policy, RecentlyJoinedPolicy):
            return False
        owner = state.selector.select(state.hashes[position])
        joined = None if owner is None else policy.recently.get(owner)
        if joined is not None and not policy.is_released(joined) and position > self._shown_at_join[joined.number]:
            return True
        if position < self._shown_read:
            return False
        now_us = state.agenda.now_us
        if not policy.recently and all(at_us > now_us for at_us in self._skips_us):
            return False
        ahead = sum(not acked for acked in cursor.acked[cursor.mark_delete + 1 : position])
        return now_us - state.last_sent_us <= ahead * _READ_AND_PAUSE_US

    def _is_behind_full_replay(self, able: set[int]) -> bool:
        """Whether so many entries that cannot be sent come before all that can that they fill replay (contract 4.7).

        A sound broker reads on until it is full, and without snapshots no row shows that another one has not.
        """
        simulation, first = self._simulation, min(able, default=0)
        policy, cursor = simulation.policy, simulation.cursor
        if simulation.setup.stats_us or not isinstance(policy, DrainingPolicy) or first < self._shown_read:
            return False
        held = {position for consumer in simulation.state.consumers for position in consumer.pending}
        ahead = (position for position in range(cursor.mark_delete + 1, first) if position not in held)
        stuck = sum(not cursor.acked[position] and not self._waits_for_its_time(position) for position in ahead)
        return 0 < policy.limit() <= stuck

    def _is_shown_short(self, consumer: Consumer) -> bool:
        """Whether rows show that a consumer can take nothing: a limit does so only if they name it."""
        setup, limit = self._simulation.setup, consumer.unacked_max
        named = setup.recorded_settings != "not" or limit == setup.broker[PER_CONSUMER]
        return consumer.permits <= 0 or (named and 0 < limit <= consumer.unacked)

    def _note_limits(self, now_us: int, held: Set[int]) -> None:
        state, faults = self._simulation.state, self._simulation.setup.faults
        limit = state.settings.unacked_per_subscription
        if limit:
            self._note_full(limit - faults.over_subscription_limit, now_us)
        self._note_skipped(now_us, held)
        is_certain = self._is_certain(PER_CONSUMER, now_us, now_us)
        for consumer in state.consumers:
            # Only who is sent more goes beyond the limit.
            if consumer.unacked_max and is_certain and consumer.pending.keys() - self._held_before:
                certain = sum(position not in self._maybe_skipped for position in consumer.pending)
                over = certain - (consumer.unacked_max - faults.over_consumer_limit)
                self.over_consumer = max(self.over_consumer, over)

    def _note_skipped(self, now_us: int, held: Set[int]) -> None:
        """Notes what consumers hold that an administrator may have skipped."""
        skip_us = max((at_us for at_us in self._skips_us if at_us <= now_us), default=-1)
        published_us = self._simulation.workload.publish_us
        self._maybe_skipped &= held
        if skip_us >= 0 and now_us <= skip_us + READ_US + LOOK_US:
            self._maybe_skipped |= {position for position in held if published_us[position] <= skip_us + _AROUND_US}

    def _note_full(self, limit: int, now_us: int) -> None:
        """Counts what was sent and certainly read since the subscription is at its limit."""
        cursor, published_us = self._simulation.cursor, self._simulation.workload.publish_us
        # The broker may count what an administrator has skipped, and rows do not show which that was.
        reset_us = max((at_us for at_us in self._resets_us if at_us <= now_us), default=-1)
        consumers = self._simulation.state.consumers
        held = {position: consumer.number for consumer in consumers for position in consumer.pending}
        # What a leaver gave back may have been sent again since the last look.
        stayed = sum(published_us[position] > reset_us for position, _ in held.items() & self._held.items())
        self._held = held
        full, unacked = self._full, sum(published_us[position] > reset_us for position in held)
        if full is not None and (full.limit != limit or stayed < limit // 2):
            full = None
        if full is None and 0 < limit <= unacked:
            full = _Full(limit, now_us)
        if full is not None and full.unread is None and now_us > full.since_us + _AROUND_US:
            later = bisect_right(published_us, full.since_us + _AROUND_US)
            full.unread = min(later, cursor.read_position) if self._is_snapshot(now_us) else later
        self._full = full
        if full is not None and full.unread is not None and self._is_certain(PER_SUBSCRIPTION, full.since_us, now_us):
            read = sum(position in held or cursor.acked[position] for position in range(full.unread, cursor.end))
            self.over_subscription = max(self.over_subscription, read)
