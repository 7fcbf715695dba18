"""A read loop in which one read never completes: a fault for tests of the audit (#26454).

The dispatcher believes that the read is pending. With a normal read that keeps it from further normal reads, with a
replay read from all reads (contract 4.2, steps 5e and 9).
"""

from dispatch_audit.pipeline.simulate.dispatcher.read_loop import ReadLoop
from dispatch_audit.pipeline.simulate.dispatcher.sending import Sender
from dispatch_audit.pipeline.simulate.policies.policy import DispatcherPolicy
from dispatch_audit.pipeline.simulate.state.agenda import Action
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState
from dispatch_audit.pipeline.simulate.state.faults import Faults


class FaultyReadLoop(ReadLoop):
    """Loses the first read of a kind that begins after some moment.

    Attributes:
        stuck_since_us: when that was; -1: not yet.
    """

    def __init__(self, state: DispatcherState, policy: DispatcherPolicy, sender: Sender, faults: Faults) -> None:
        super().__init__(state, policy, sender)
        self._faults = faults
        self.stuck_since_us = -1

    def _start_replay_read(self, candidates: list[int]) -> None:
        if self._loses("replay"):
            self._pending_replay = True
            self._heal(self._begin_replay_read_anew, self._reload)
        else:
            super()._start_replay_read(candidates)

    def _start_normal_read(self, entries_max: int) -> None:
        # A read that waits at the tail has not begun.
        if self._state.cursor.has_more and self._loses("normal"):
            self._heal(self._begin_normal_read_anew, (self._reload, entries_max))
        else:
            super()._start_normal_read(entries_max)

    def _loses(self, kind: str) -> bool:
        now_us = self._state.agenda.now_us
        if self.stuck_since_us >= 0 or kind != self._faults.stuck_read or now_us < self._faults.from_us:
            return False
        self.stuck_since_us = now_us
        return True

    def _heal(self, action: Action, argument: object) -> None:
        if self._faults.stuck_for_us:
            self._state.agenda.after(self._faults.stuck_for_us, action, argument)

    def _begin_normal_read_anew(self, asked: tuple[int, int]) -> None:
        reload, entries_max = asked
        if reload == self._reload:
            super()._start_normal_read(entries_max)

    def _begin_replay_read_anew(self, reload: int) -> None:
        if reload == self._reload:
            self._pending_replay = False
            self.read_more()
