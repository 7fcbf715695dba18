"""The read loop of a dispatcher: normal reads, replay reads, and when the next one follows (contract 4.1 to 4.10)."""

from typing import NamedTuple

from dispatch_audit.pipeline.simulate.dispatcher.clean_up import clean_up
from dispatch_audit.pipeline.simulate.dispatcher.read_requests import ReadRequests
from dispatch_audit.pipeline.simulate.dispatcher.sending import Sender
from dispatch_audit.pipeline.simulate.policies.policy import DispatcherPolicy
from dispatch_audit.pipeline.simulate.state.agenda import NEVER
from dispatch_audit.pipeline.simulate.state.dispatch_rates import RETRY_US
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState


class _Result(NamedTuple):
    """The result of a read before its dispatch; `reload` counts the dispatchers before the one that read it."""

    entries: list[int]
    replay_read: bool
    first_in_replay: int | None
    reload: int


class ReadLoop:
    """Reads and dispatches.

    Attributes:
        rewind_pending: whether the result of the normal read in flight must be dropped, and the cursor rewound.
        parked: how many entries the normal read that waits at the tail asks for; 0: none waits.
        mark_delete_moved: whether mark-delete moved since the last clean-up of a version that cleans up in this loop.
    """

    def __init__(self, state: DispatcherState, policy: DispatcherPolicy, sender: Sender) -> None:
        self._state = state
        self._policy = policy
        self._sender = sender
        state.unblocked = self.unblocked
        state.mark_delete_moved = self._mark_delete_has_moved
        self.rewind_pending = False
        self.parked = 0
        self.mark_delete_moved = False
        self._pending_normal = False
        self._pending_replay = False
        self._send_in_progress = False
        # Results that wait for their dispatch. `_send_in_progress` does not show them, because any dispatch clears it.
        self._results: list[_Result] = []
        self._calls = 0
        self._first_in_replay: int | None = None
        self._requests = ReadRequests(state, self.read_more)
        self._unblock_scheduled = False
        self._last_dispatch_us = 0
        self._reload = 0

    @property
    def busy(self) -> bool:
        """Whether a result of a read is on its way, so that its entries are nowhere else."""
        in_flight = self._pending_normal and not self.parked
        return in_flight or self._pending_replay or bool(self._results)

    # --- asking for a read -------------------------------------------------------------------------------------------

    def read_soon(self) -> None:
        """Asks for a read in another thread; requests of one moment are one."""
        self._requests.soon()

    def unblocked(self) -> None:
        """Asks for a read after the unblocking interval; requests meanwhile are one (contract 4.9)."""
        if not self._unblock_scheduled:
            self._unblock_scheduled = True
            self._state.agenda.after(self._state.settings.unblocking_interval_us, self._unblock, self._calls)

    def published(self) -> None:
        """Completes a read that is parked at the tail; call when an entry was published and `parked` is not 0."""
        entries_max, self.parked = self.parked, 0
        self._start_normal_read(entries_max)

    def _unblock(self, calls_then: int) -> None:
        self._unblock_scheduled = False
        if self.parked and self._calls == calls_then and len(self._state.replay):
            self.parked, self._pending_normal = 0, False
        self._requests.after(0)

    # --- reading -----------------------------------------------------------------------------------------------------

    def read_more(self) -> None:
        """Starts a replay read, or else a normal read, if there is reason to (contract 4.2)."""
        state, policy = self._state, self._policy
        if self._send_in_progress:
            return
        self._calls += 1
        if self.mark_delete_moved:
            self.mark_delete_moved = False
            clean_up(state, policy)
        policy.read_cycle()
        entries_max = self._entries_to_read()
        if not entries_max:
            return
        candidates: list[int] = []
        if self._sender.skip_next_replay:
            self._sender.skip_next_replay = False
        elif state.replay.hash_of:
            candidates = policy.replay_candidates(entries_max)
        if candidates:
            self._start_replay_read(candidates)
        elif policy.normal_reads_stop():
            return
        elif not self._pending_normal:
            if not policy.normal_read_allowed():
                if policy.backs_off:
                    self._requests.after_backoff()
                return
            self._pending_normal = True
            self._first_in_replay = policy.first_to_replay()
            self._start_normal_read(policy.normal_read_max(entries_max))

    def _entries_to_read(self) -> int:
        """The most entries of the next read; 0: there is none (contract 4.2, steps 4 and 5)."""
        state = self._state
        first_permits = state.first_permits()
        if not first_permits:
            return 0
        entries_max = min(max(state.total_permits, first_permits), state.settings.read_batch)
        if state.rates is not None:
            entries_max = state.rates.allowed(entries_max, state.entries.mean_bytes, state.agenda.now_us)
            if not entries_max:
                self._requests.after(RETRY_US)
        if self._pending_replay:
            return 0
        if state.delayed is not None and not self._sender.skip_next_replay:
            # Due entries enter replay without a hash (4.3), except at the one read that skips replay (4.2, step 6).
            for position in state.delayed.take_due(entries_max):
                if position > state.cursor.mark_delete:
                    state.replay.add(position)
        return entries_max

    def _start_replay_read(self, candidates: list[int]) -> None:
        state = self._state
        first = self._policy.first_to_replay()
        acked = state.cursor.acked
        entries = [position for position in candidates if not acked[position]]
        if len(entries) < len(candidates):
            for position in candidates:
                if acked[position]:
                    state.replay.remove(position)
        if not entries:
            self.read_soon()
            return
        for result in self._results:
            if result.replay_read:
                # It has not been dispatched, so this read takes its entries from replay too: F10.
                state.overlapped.update(set(result.entries).intersection(entries))
        self._pending_replay = True
        self._policy.replay_read_started(entries)
        result = _Result(entries, True, first, self._reload)
        state.agenda.after(state.draw_read_us(), self._read_done, result)

    def _start_normal_read(self, entries_max: int) -> None:
        state = self._state
        if not state.cursor.has_more:
            self.parked = entries_max
            return
        state.agenda.after(state.draw_read_us(), self._ledger_done, (entries_max, self._reload))

    def _ledger_done(self, asked: tuple[int, int]) -> None:
        """Moves the read position before the dispatch: a consumer that joins in between sees the new one (F1)."""
        entries_max, reload = asked
        if reload != self._reload:
            return
        if self.rewind_pending:
            self._read_done(_Result([], False, None, reload))
            return
        entries = self._state.cursor.read(entries_max)
        if not entries:
            # All entries up to the tail are acknowledged: the read waits there.
            self.parked = entries_max
            return
        self._state.normal_in_flight = entries[0]
        self._read_done(_Result(entries, False, self._first_in_replay, reload))

    def _read_done(self, result: _Result) -> None:
        if result.reload != self._reload:
            return
        if result.replay_read:
            self._pending_replay = False
        else:
            self._pending_normal = False
            if self.rewind_pending:
                self.rewind_pending = False
                self._state.cursor.rewind()
                self.read_more()
                return
        self._send_in_progress = True
        self._results.append(result)
        state = self._state
        # One thread dispatches, in the order in which results were queued.
        self._last_dispatch_us = max(state.agenda.now_us + state.draw_dispatch_us(), self._last_dispatch_us)
        state.agenda.at(self._last_dispatch_us, self._dispatch, result)

    def _dispatch(self, result: _Result) -> None:
        if result.reload != self._reload:
            return
        self._results.remove(result)
        sender = self._sender
        if not result.replay_read:
            self._state.normal_in_flight = NEVER
        more = sender.dispatch(result.entries, result.replay_read, result.first_in_replay)
        # One flag for both kinds of read: another result may still wait for its dispatch (F10, contract 6.6).
        self._send_in_progress = False
        if sender.processed:
            self._state.agenda.after(self._state.timing.write_us, self._written)
        if sender.processed or sender.skip_next_backoff or not self._policy.backs_off:
            self._requests.reset_backoff()
            sender.skip_next_backoff = False
            if more:
                self.read_more()
        else:
            self._requests.after_backoff()

    def _written(self, _: object) -> None:
        # A read that is already queued serves for this one too.
        if not self._requests.queued and self._state.switches.reads_after_writes:
            self.read_more()

    # --- clean-ups, rewinds and reloads ------------------------------------------------------------------------------

    def _mark_delete_has_moved(self, moved: bool) -> None:
        """Asks for a clean-up and a read, in versions that do so at every move of mark-delete (contract 3.11)."""
        if moved and self._policy.mark_delete_moved():
            self.read_soon()
        if moved and self._state.switches.clean_up_in_read_loop:
            self.mark_delete_moved = True
            self.unblocked()

    def cancel_normal_read(self) -> None:
        """Cancels a parked read when the last consumer has left; a read in flight is dropped after the next join."""
        if self.parked:
            self.parked, self._pending_normal = 0, False

    def rewind_at_join(self) -> None:
        """Rewinds the cursor to mark-delete when the first consumer joins: at once, or after the read in flight."""
        if self._pending_normal:
            self.rewind_pending = True
        else:
            # Results that wait for their dispatch are read again (contract 3.5: only a read in flight is dropped).
            for result in self._results:
                self._state.overlapped.update(result.entries)
            self._state.cursor.rewind()
            self.rewind_pending = False

    def reload(self) -> None:
        """Starts as a new dispatcher: results in flight belong to the old one and are dropped."""
        self._reload += 1
        self._state.normal_in_flight = NEVER
        self.rewind_pending = self._pending_normal = self._pending_replay = self._send_in_progress = False
        self._results.clear()
        self._sender.skip_next_replay = self._sender.skip_next_backoff = False
        self.parked = 0
        if self._state.delayed is not None:
            self._state.delayed.clear()
