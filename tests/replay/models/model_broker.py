"""Clients and a recorder for the model dispatcher: commands take their time, and rows come before and after an effect.

Everything happens at a moment of simulated time, under the lock where the broker has one, and takes a latency that the
caller draws: of a read, of a command on its way, of a message to its client. These are the source of all races.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from local_replay import Log
from model_agenda import Agenda
from model_dispatcher import ModelDispatcher
from model_state import Bug, Consumer, ModelState

from dispatch_audit.pipeline.errors import AssignmentError
from dispatch_audit.pipeline.packing.membership_rows import CLOSED_BY_BROKER

LEDGER: Final = 1


class Bracket(NamedTuple):
    """How a membership change gets into the trace.

    Attributes:
        sides: that are recorded: "start end", "start" or "end".
        before_us: from the start to the moment of the change; None: a latency.
        after_us: from there to the end; None: a latency.
    """

    sides: str = "start end"
    before_us: int | None = None
    after_us: int | None = None


AS_IT_COMES = Bracket()


class ModelBroker:
    """One subscription of a broker, and its clients; writes `log` as a recorder in the broker does.

    Args:
        latencies_us: are used one after the other, over and over.
        settings, version, bug, sticky: of the dispatcher's state.

    Attributes:
        state: of the dispatcher.
        consumers: of that.
        membership_changes: that are under way.
    """

    def __init__(
        self,
        latencies_us: Sequence[int],
        settings: Mapping[str, object],
        version: str = "4.0.8",
        bug: Bug | None = None,
        sticky: bool = False,
    ) -> None:
        self.log = Log(step_us=0)
        self._agenda = Agenda(self.log, latencies_us)
        self.state = ModelState(settings, version, bug, sticky)
        self.dispatcher = ModelDispatcher(self._agenda, self.log, self.state)
        self.consumers = self.state.consumers
        self.run, self.publish = self._agenda.run, self.dispatcher.reads.publish
        self.membership_changes = 0
        self._joined = 0
        self._resetting = self._fenced = False
        self._after_reset: list[Callable[[], None]] = []

    def join(
        self,
        permits: int,
        bracket: Bracket = AS_IT_COMES,
        name: str | None = None,
        ranges: Sequence[tuple[int, int]] = (),
    ) -> None:
        """A client connects and asks for its first messages; called `c<number>` unless it has a name.

        Where a reset is under way it connects after it.
        """
        if self._resetting:
            self._after_reset.append(lambda: self.join(permits, bracket, name, ranges))
            return
        self._joined += 1
        self.membership_changes += 1
        consumer = Consumer(self._joined, name or f"c{self._joined}", ranges)
        written = len(self.log.rows)
        self._record_join(consumer, bracket, "start")

        def joins() -> None:
            consumer.up_us = consumer.down_us = self._agenda.now_us
            try:
                if self._fenced:
                    self._after_reset.append(lambda: self.join(permits, bracket, name, ranges))
                    raise AssignmentError("the subscription is fenced")
                self.dispatcher.add(consumer)
            except AssignmentError:
                self.membership_changes -= 1
                for row in self.log.rows[written:]:
                    if row.get("consumer") == consumer.number:
                        # The broker refused it, so no consumer came of it.
                        row["consumer"] = None
                return
            consumer.unrecorded = ends
            self._agenda.later(ends, bracket.after_us)

        def ends() -> None:
            if consumer.unrecorded is not None:
                consumer.unrecorded = None
                self._record_join(consumer, bracket, "end")
                self.membership_changes -= 1
                self.flow(consumer, permits)

        self._agenda.later(joins, bracket.before_us)

    def _record_join(self, consumer: Consumer, bracket: Bracket, phase: str) -> None:
        if phase in bracket.sides.split():
            self.log.join(consumer.number, phases=phase, name=consumer.name, ranges=consumer.ranges)

    def leave(self, consumer: Consumer, bracket: Bracket = AS_IT_COMES) -> None:
        """A client closes its consumer."""
        consumer.open = False
        self.membership_changes += 1

        def arrives() -> None:
            if consumer not in self.consumers:
                self.membership_changes -= 1
                return
            consumer.leaving = True
            self._record_leave(consumer, bracket, "start")
            consumer.up_us = max(consumer.up_us, self._agenda.now_us + self._agenda.latency(bracket.before_us))
            self._agenda.at(consumer.up_us, leaves)

        def leaves() -> None:
            if consumer in self.consumers:
                self.dispatcher.remove(consumer)
            self._agenda.later(ends, bracket.after_us)

        def ends() -> None:
            self._record_leave(consumer, bracket, "end")
            self.membership_changes -= 1

        self._agenda.at(max(consumer.up_us, self._agenda.now_us + self._agenda.latency()), arrives)

    def _record_leave(self, consumer: Consumer, bracket: Bracket, phase: str) -> None:
        if phase in bracket.sides.split():
            self.log.leave(consumer.number, phases=phase)

    def close(self, consumer: Consumer, late_us: int) -> None:
        """The broker closes a consumer; the one row about it comes so much later, or earlier if negative."""
        consumer.open = False
        self.membership_changes += 1

        def closes() -> None:
            if consumer in self.consumers:
                self.dispatcher.remove(consumer)

        def is_recorded() -> None:
            if consumer.unrecorded is not None:
                consumer.unrecorded()
            if not consumer.leaving:
                self.log.leave(consumer.number, phases="start", reason=CLOSED_BY_BROKER)
            self.membership_changes -= 1

        self._agenda.at(self._agenda.now_us + max(-late_us, 0), closes)
        self._agenda.at(self._agenda.now_us + max(late_us, 0), is_recorded)

    def reset(self, reason: str, closes_us: Sequence[tuple[int, int]], to: int | None = None) -> None:
        """All consumers are closed and everything starts anew.

        Args:
            reason: "seek" or "unload".
            closes_us: of each consumer, when it is closed, and how much later that is recorded (`close`).
            to: the position to go on from; None: after what is acknowledged.
        """
        self._resetting = True
        self.membership_changes += 1
        self.log.reset(reason, phases="start")

        def begins() -> None:
            self._fenced = True
            over_us = 0
            for consumer, (at_us, late_us) in zip(list(self.consumers), closes_us, strict=False):
                self._agenda.later(partial(self.close, consumer, late_us), at_us)
                over_us = max(over_us, at_us + abs(late_us))
            self._agenda.later(starts_anew, over_us)

        def starts_anew() -> None:
            for consumer in list(self.consumers):
                self.close(consumer, 0)
            # They are closed by then, for what is due at once happens in the order of being asked for.
            self._agenda.later(moves, 0)

        def moves() -> None:
            self.dispatcher.start_anew(reason == "unload", to)
            self._resetting = self._fenced = False
            waiting, self._after_reset = self._after_reset, []
            for joins in waiting:
                self._agenda.later(joins)
            self._agenda.later(ends)

        def ends() -> None:
            self.log.reset(reason, phases="end")
            self.membership_changes -= 1

        self._agenda.later(begins)

    def flow(self, consumer: Consumer, permits: int) -> None:
        """A client asks for messages."""

        def arrives() -> None:
            self.log.write("flow", consumer=consumer.number, permits=permits)

        def grants() -> None:
            if consumer in self.consumers:
                self.dispatcher.grant(consumer, permits)

        self._command(consumer, arrives, grants)

    def ack(self, consumer: Consumer, *positions: int) -> None:
        """A client acknowledges what it has received."""
        consumer.received -= set(positions)

        def arrives() -> None:
            self.log.ack(consumer.number, *positions, phases="start")

        def acks_end() -> None:
            self.log.ack(consumer.number, *positions, phases="end")

        def acks() -> None:
            if consumer in self.consumers:
                for position in positions:
                    self.dispatcher.acknowledge(consumer, position)
                self._agenda.later(acks_end)

        self._command(consumer, arrives, acks)

    def give_back(self, consumer: Consumer, *positions: int) -> None:
        """A client gives back what it has received; all that the broker holds for it if nothing is named.

        Takes effect when it arrives: no row says when it did, and what is sent in between may be given back as well.
        """
        consumer.received -= set(positions or consumer.received)

        def arrives() -> None:
            self.log.redeliver(consumer.number, *positions)
            self.dispatcher.redeliver(consumer, positions)

        self._command(consumer, arrives, lambda: None)

    def snapshot_in(self, us: int) -> None:
        """The broker will be asked how it stands."""
        self._agenda.later(self.snapshot, us)

    def snapshot(self) -> None:
        """The broker says how it stands (7)."""
        state, seq = self.state, len(self.log.rows)
        owned = state.ranges()
        reported = {
            "seq_begin": seq,
            "seq_end": seq,
            "msg_in_replay": len(state.replay),
            "read_position": f"{LEDGER}:{self.dispatcher.reads.read_position}",
            "mark_delete_position": f"{LEDGER}:{state.mark_delete}",
            "consumers": [
                {
                    "consumer": c.number,
                    "available_permits": c.permits,
                    "unacked_messages": len(c.pending),
                    "key_hash_ranges": owned.get(c.number, []),
                    "draining_hashes": [
                        {"hash": sticky_hash, "unacked_messages": draining.entries}
                        for sticky_hash, draining in state.draining.items()
                        if draining.holder is c
                    ],
                }
                for c in self.consumers
            ],
        }
        self.log.write("stats", snapshot=json.dumps(reported))

    def _command(self, consumer: Consumer, arrives: Callable[[], None], takes_effect: Callable[[], None]) -> None:
        """The commands of a client are handled one after the other; the broker does not know one that it closed."""

        def arrives_if_there() -> None:
            if consumer in self.consumers:
                arrives()

        arrives_us = max(consumer.up_us, self._agenda.now_us + self._agenda.latency())
        consumer.up_us = arrives_us + self._agenda.latency()
        self._agenda.at(arrives_us, arrives_if_there)
        self._agenda.at(consumer.up_us, takes_effect)
