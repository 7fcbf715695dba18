"""Sends the entries of a read: grouped by consumer, charged, logged (contract 4.10)."""

from dispatch_audit.pipeline.simulate.policies.policy import DispatcherPolicy
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState


class Sender:
    """Dispatches the results of reads.

    Attributes:
        processed: entries that the last dispatch grouped.
        skip_next_replay: whether the next read skips replay once, to look ahead.
        skip_next_backoff: whether the next read follows without a backoff.
    """

    __slots__ = ("_policy", "_sent", "_state", "processed", "skip_next_backoff", "skip_next_replay")

    def __init__(self, state: DispatcherState, policy: DispatcherPolicy) -> None:
        self._state = state
        self._policy = policy
        state.send = self.send
        self.processed = 0
        # The entries among them that were sent, without those that turned out to be delayed.
        self._sent = 0
        self.skip_next_replay = False
        self.skip_next_backoff = False

    def dispatch(self, entries: list[int], replay_read: bool, first_in_replay: int | None) -> bool:
        """Sends what may be sent and puts the rest into replay; returns whether more should be read at once.

        Args:
            entries: the result of a read, ascending.
            replay_read: whether it read entries of replay.
            first_in_replay: the first entry of replay when the read began.
        """
        state = self._state
        self.processed = self._sent = 0
        if not entries:
            return True
        if not state.consumers:
            state.cursor.rewind()
            return False
        counters = state.counters
        counters.reads += 1
        counters.entries_read += len(entries)
        first = self._policy.first_to_replay()
        if first is not None and first_in_replay is not None and first < first_in_replay:
            self._discard(entries, replay_read)
            return True
        groups, look_ahead, diverted = self._policy.group(entries, replay_read)
        self.processed = self._sent = diverted
        consumers = list(groups)
        if len(consumers) > 1:
            # The broker goes through a hash map of consumers: their order is not specified.
            state.rng.shuffle(consumers)
        for number in consumers:
            self._take(number, groups[number], replay_read)
        counters.entries_wasted += len(entries) - self.processed
        if look_ahead:
            self.skip_next_replay = True
            self.skip_next_backoff = state.cursor.has_more
            return True
        return not self._sent

    def _discard(self, entries: list[int], replay_read: bool) -> None:
        """Discards a result because an older entry entered replay; entries of a replay read are still in replay."""
        self._state.counters.entries_wasted += len(entries)
        if not replay_read:
            for position in entries:
                self._state.wait_in_replay(position)
        self.skip_next_backoff = True

    def _take(self, number: int, chosen: list[int], replay_read: bool) -> None:
        """Takes entries out of replay and sends them, at once or after the gap of a broken variant."""
        state = self._state
        self.processed += len(chosen)
        if replay_read:
            for position in chosen:
                state.replay.remove(position)
        if state.delayed is not None:
            chosen = [position for position in chosen if not state.delayed.keep(position)]
            if not chosen:
                return
        self._sent += len(chosen)
        if state.switches.send_gap_us:
            state.agenda.after(state.switches.send_gap_us, self._send_late, (number, chosen))
        else:
            self.send(number, chosen)

    def send(self, number: int, positions: list[int]) -> None:
        """Sends entries to a connected consumer."""
        state, policy = self._state, self._policy
        consumer = state.by_number[number]
        hashes, pending, counts = state.hashes, consumer.pending, state.redelivery_counts
        first_sent_us = state.first_sent_us
        acked, dispatched, now_us = state.cursor.acked, state.log.dispatched, state.agenda.now_us
        refused: list[int] = []
        for position in positions:
            if policy.refuses(consumer, position):
                refused.append(position)
                continue
            pending[position] = hashes[position]
            if acked[position] and position not in policy.holds:
                # Acknowledged while a read had it in flight (E6).
                state.acked_while_held = True
            if first_sent_us[position] < 0:
                first_sent_us[position] = now_us
            dispatched(now_us, number, position, counts.get(position, 0) if counts else 0)
        state.last_sent_us = now_us
        of_one = state.entries.messages
        messages = len(positions) if of_one is None else sum(of_one[position] for position in positions)
        # What the guard refuses was charged before, and is not given back (contract 3.7).
        consumer.sent(len(positions), messages)
        state.total_permits -= messages
        # Sending too ends the block if the limit was raised meanwhile; a read follows in any case.
        state.count_unacked(messages)
        self._charge(positions, messages)
        for position in refused:
            state.counters.guarded += 1
            state.wait_in_replay(position)
        sent = [position for position in positions if position not in refused] if refused else positions
        state.counters.sent += len(sent)
        policy.sent(sent)
        state.deliver(consumer, sent)

    def _charge(self, positions: list[int], messages: int) -> None:
        """Charges what was sent to the dispatch rate limits (contract 4.10, step 5)."""
        state = self._state
        if state.rates is not None:
            counted = len(positions) if state.settings.rates_count_entries else messages
            state.rates.charge(counted, sum(state.entries.bytes_in(position) for position in positions))

    def _send_late(self, chosen: tuple[int, list[int]]) -> None:
        """Sends without the lock, some time after the consumer was chosen: it may have left, or others joined."""
        number, positions = chosen
        if number in self._state.by_number:
            self.send(number, positions)
            return
        # F9: the map of pending entries of a 3.x consumer is never closed, so the entries stay with it.
        if self._state.switches.race_guard:
            for position in positions:
                self._state.wait_in_replay(position)
