"""Simulates one partition: publishes, clients and dispatcher on one agenda."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from heapq import heappop
from random import Random

from dispatch_audit.pipeline.simulate.changing_settings import ChangingSettings
from dispatch_audit.pipeline.simulate.clients.client import Broker, Client
from dispatch_audit.pipeline.simulate.clients.processing import AtOnce, PerKey, Processing, Threads
from dispatch_audit.pipeline.simulate.dispatcher.faulty_read_loop import FaultyReadLoop
from dispatch_audit.pipeline.simulate.dispatcher.membership import ConsumerChanges
from dispatch_audit.pipeline.simulate.dispatcher.read_loop import ReadLoop
from dispatch_audit.pipeline.simulate.dispatcher.sending import Sender
from dispatch_audit.pipeline.simulate.dispatcher.settling import Settlements
from dispatch_audit.pipeline.simulate.output.event_log import NUMBERS, EventLog
from dispatch_audit.pipeline.simulate.output.snapshots import snapshot_of
from dispatch_audit.pipeline.simulate.policies.factory import make_policy
from dispatch_audit.pipeline.simulate.progress import Progress
from dispatch_audit.pipeline.simulate.setup import Setup
from dispatch_audit.pipeline.simulate.state.agenda import NEVER, Agenda
from dispatch_audit.pipeline.simulate.state.consumer import Consumer
from dispatch_audit.pipeline.simulate.state.cursor import Cursor
from dispatch_audit.pipeline.simulate.state.delayed_entries import DelayedEntries
from dispatch_audit.pipeline.simulate.state.dispatcher_state import DispatcherState, Entries
from dispatch_audit.pipeline.simulate.state.misrouting_state import MisroutingState
from dispatch_audit.pipeline.simulate.state.switches import Switches
from dispatch_audit.pipeline.simulate.workload.partition_workload import Action, PartitionWorkload
from dispatch_audit.udfs.sticky_key_hash import sticky_hashes

RECONNECT_US = 100_000
"""From a disconnect by the broker until the client joins again."""


class PartitionSimulation:
    """One partition under one setup.

    Attributes:
        state: the dispatcher.
        log: the rows so far.
        progress: what was measured so far.
        clients: the clients, by their number.
    """

    def __init__(self, workload: PartitionWorkload, setup: Setup) -> None:
        self.workload = workload
        self.setup = setup
        self.agenda = Agenda()
        self.log = EventLog()
        sticky = any(plan.ranges for plan in workload.clients)
        by_key = sticky_hashes(list(workload.key_bytes), setup.profile.hash[setup.selector_kind(sticky)]).tolist()
        hashes = [by_key[key] for key in workload.keys]
        rng = Random(setup.seed)
        self.cursor = Cursor(len(workload))
        state = MisroutingState if setup.faults.of_routing else DispatcherState
        self.state = state(
            self.agenda,
            self.cursor,
            Entries(hashes, workload.messages, workload.sizes),
            setup.selector(sticky),
            setup.settings,
            setup.timing,
            _switches(setup, sticky, workload.allow_out_of_order),
            self.log,
            self._deliver,
            rng,
        )
        self.policy = make_policy(setup.policy, self.state, setup.options)
        self._sender = Sender(self.state, self.policy)
        self.loop = self._read_loop()
        self.settlements = Settlements(self.state, self.policy, self.loop)
        self.membership = ConsumerChanges(self.state, self.policy, self.loop)
        if workload.deliver_at_us is not None:
            self.state.delayed = DelayedEntries(
                workload.deliver_at_us, self.agenda, setup.settings.tick_us, self.loop.read_soon
            )
        self._settings = ChangingSettings(setup, self.state, self.log)
        if isinstance(self.state, MisroutingState):
            key, nobody = max((setup.faults.starved_key, True), (setup.faults.misrouted_key, False))
            self.agenda.at(setup.faults.from_us, self.state.misroute, (by_key[key], nobody))
        self._service_us = [plan.service_us for plan in workload.clients]
        broker = Broker(self._acknowledge, self._flow, self._redeliver)
        self.clients = [
            Client(
                number,
                plan.name,
                plan.settings,
                self._processing(plan.threads),
                self._service_of(number),
                workload.messages,
                self.agenda,
                broker,
                setup.timing.network_us,
                Random(f"{setup.seed}/{number}").random,
            )
            for number, plan in enumerate(workload.clients)
        ]
        self._numbers = 0
        self.progress = Progress(self.state, self.policy, setup.stall_us)
        for action in workload.actions:
            self.agenda.at(action.at_us, self._act, action)
        self._actions_left = len(workload.actions)
        self._over = False
        self.agenda.at(0, self._look)
        if setup.stats_us:
            self.agenda.at(setup.stats_us, self._stats)

    def run(self, events_max: int = 1 << 62) -> bool:
        """Simulates until the end, or until the log has this many events; returns whether it is at the end."""
        agenda, cursor, loop = self.agenda, self.cursor, self.loop
        publish_us, end_us, total = self.workload.publish_us, self.workload.end_us, len(self.workload)
        # This loop runs several times for each entry, so it asks for no attribute twice.
        heap, published = agenda.heap, self.log.published
        numbers, full = self.log.events, events_max * NUMBERS
        at = cursor.end
        due_us = publish_us[at] if at < total else NEVER
        while not self._over and len(numbers) < full:
            next_us = heap[0][0] if heap else NEVER
            if due_us <= next_us:
                if due_us > end_us:
                    self._over = True
                    break
                agenda.now_us = due_us
                published(due_us, at)
                at += 1
                cursor.end = at
                due_us = publish_us[at] if at < total else NEVER
                if loop.parked:
                    loop.published()
            elif next_us > end_us:
                self._over = True
            else:
                agenda.now_us, _, action, argument = heappop(heap)
                action(argument)
        if self._over:
            self.progress.finish(min(agenda.now_us, end_us), self.clients, publish_us)
        return self._over

    def logs(self, events_max: int) -> Iterator[EventLog]:
        """Simulates to the end, and hands out the log each time it has this many events; the caller takes it."""
        while not self.run(events_max):
            yield self.log
        yield self.log

    # --- what happens ------------------------------------------------------------------------------------------------

    def _act(self, action: Action) -> None:
        self._actions_left -= 1
        client = self.clients[action.client] if action.client >= 0 else None
        if client is None:
            self._administer(action)
        elif action.kind == "join":
            self._join(client)
        elif action.kind in {"close", "crash"}:
            if action.kind == "close":
                client.closing()
            self._leave(client, "close_consumer" if action.kind == "close" else "connection_closed")
        elif action.kind == "hang":
            client.hang()
        elif action.kind == "resume":
            client.resume()
        elif action.kind == "processing":
            self._service_us[client.number] = action.amount

    def _administer(self, action: Action) -> None:
        if action.kind == "settings":
            self._settings.change(action.settings or {})
            return
        self.log.reset(self.agenda.now_us, action.kind, ended=False)
        if action.kind in {"seek", "unload"}:
            self._begin_anew(action)
        else:
            target = self.cursor.end - 1 if action.kind == "clear" else self.cursor.nth_unacknowledged(action.amount)
            self.settlements.move_mark_delete(target, expiry=action.kind == "expire")
        self.log.reset(self.agenda.now_us, action.kind, ended=True)

    def _begin_anew(self, action: Action) -> None:
        """Closes all consumers and moves the cursor; their clients come back (contract 5.10)."""
        connected = [client for client in self.clients if client.consumer is not None]
        for client in connected:
            self._leave(client, "closed_by_broker")
        if action.kind == "seek":
            self.cursor.reset(min(action.amount, self.cursor.end))
            self.policy.sought()
        else:
            self.cursor.forget_ranges(self.setup.settings.persisted_ranges)
            if self.state.rates is not None:
                self.state.rates.refill(self.agenda.now_us)
        self.cursor.rewind()
        self.loop.reload()
        for client in connected if self.workload.reconnects else ():
            self.agenda.after(RECONNECT_US, self._join, client)

    def _join(self, client: Client) -> None:
        if client.consumer is not None:
            return
        self._numbers += 1
        consumer = Consumer(self._numbers, client.name, client.number, self.state.settings.unacked_per_consumer)
        ranges = self.workload.clients[client.number].ranges
        if self.membership.join(consumer, ranges):
            self.log.joined(self.agenda.now_us, consumer.number, client.number, client.name)
            client.connected(consumer)

    def _leave(self, client: Client, reason: str) -> None:
        consumer = client.consumer
        if consumer is None:
            return
        self.log.left(self.agenda.now_us, consumer.number, reason)
        client.disconnected()
        self.membership.leave(consumer)

    def _look(self, _: object) -> None:
        published = self.cursor.end
        everything = published == len(self.workload) and not self._actions_left
        if everything and self.cursor.mark_delete + 1 == published and not self.policy.unfinished():
            self._over = True
        self.progress.look()
        self.agenda.after(self.progress.INTERVAL_US, self._look)

    def _stats(self, _: object) -> None:
        self.log.stats(self.agenda.now_us, snapshot_of(self.state, self.policy, self.workload.positions))
        self.agenda.after(self.setup.stats_us, self._stats)

    # --- between broker and clients ----------------------------------------------------------------------------------

    def _deliver(self, consumer: Consumer, positions: list[int]) -> None:
        client = self.clients[consumer.client]
        if client.consumer is consumer:
            client.receive(positions)

    def _acknowledge(self, consumer: Consumer, positions: list[int]) -> None:
        self.log.acknowledged(self.agenda.now_us, consumer.number, positions)
        self.settlements.acknowledge(consumer, positions)
        self.progress.acknowledged()

    def _flow(self, consumer: Consumer, permits: int) -> None:
        self.log.flow(self.agenda.now_us, consumer.number, permits)
        self.settlements.flow(consumer, permits)

    def _redeliver(self, consumer: Consumer, positions: list[int]) -> None:
        self.log.redelivered(self.agenda.now_us, consumer.number, positions)
        self.settlements.redeliver(consumer, positions)

    def _read_loop(self) -> ReadLoop:
        faults = self.setup.faults
        if faults.stuck_read is None:
            return ReadLoop(self.state, self.policy, self._sender)
        return FaultyReadLoop(self.state, self.policy, self._sender, faults)

    def _processing(self, threads: int) -> Processing:
        if threads > 0:
            return Threads(threads)
        return PerKey(self.workload.keys) if threads == 0 else AtOnce()

    def _service_of(self, client: int) -> Callable[[int], int]:
        of_client, of_entry = self._service_us, self.workload.service_us
        if of_entry is None:
            return lambda _: of_client[client]
        return lambda position: of_entry[position] if of_entry[position] >= 0 else of_client[client]


def _switches(setup: Setup, sticky: bool, out_of_order: bool) -> Switches:
    """The switches without draining for STICKY consumers (contract 3.1), or as out-of-order delivery needs them."""
    switches = setup.switches
    if out_of_order:
        return replace(
            switches,
            draining=False,
            recently_joined=False,
            replay_order_check=False,
            look_ahead_needs_backlog=switches.filtered_out_of_order and switches.look_ahead_needs_backlog,
        )
    switches = replace(switches, filtered_out_of_order=True)
    return replace(switches, draining=False) if sticky else switches
