"""One client: its receiver queue, its processing, its acknowledgements (contract 4.14, 5.7)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dispatch_audit.pipeline.simulate.clients.processing import Processing
from dispatch_audit.pipeline.simulate.state.agenda import Agenda
from dispatch_audit.pipeline.simulate.state.consumer import Consumer


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings of a client.

    Attributes:
        receiver_queue: messages that the broker may send ahead; at least 1.
        ack_group_us: acknowledgements are sent at multiples of this time; 0: each at once.
        nack_ratio: the share of messages that are given back instead of acknowledged.
        nack_delay_us: from the end of the processing to the redeliver command.
    """

    receiver_queue: int = 1000
    ack_group_us: int = 100_000
    nack_ratio: float = 0.0
    nack_delay_us: int = 60_000_000


class Broker:
    """The commands that a client sends to the broker; each takes the consumer first."""

    __slots__ = ("acknowledge", "flow", "redeliver")

    def __init__(
        self,
        acknowledge: Callable[[Consumer, list[int]], None],
        flow: Callable[[Consumer, int], None],
        redeliver: Callable[[Consumer, list[int]], None],
    ) -> None:
        self.acknowledge = acknowledge
        self.flow = flow
        self.redeliver = redeliver


class Client:
    """A client that is connected or not.

    Attributes:
        consumer: its consumer at the broker; None while it is not connected.
        hung: whether it neither takes messages from its receiver queue nor finishes any.
        busy_us: time in which it processed at least one message.
    """

    def __init__(
        self,
        number: int,
        name: str,
        settings: ClientSettings,
        processing: Processing,
        service_us: Callable[[int], int],
        messages: Sequence[int] | None,
        agenda: Agenda,
        broker: Broker,
        network_us: int,
        random: Callable[[], float],
    ) -> None:
        """A client that is not connected.

        Args:
            number: its number among the clients.
            name: the name of its consumers.
            settings: its settings.
            processing: when messages start.
            service_us: how long the processing of an entry takes.
            messages: the messages in each entry, None: one in each; permits count messages.
            agenda: the agenda of the simulation.
            broker: takes its commands.
            network_us: one-way time to the broker.
            random: draws which messages it gives back.
        """
        self.number = number
        self.name = name
        self.settings = settings
        self.consumer: Consumer | None = None
        self.hung = False
        self.busy_us = 0
        self._busy_until_us = 0
        self._processing = processing
        self._service_us = service_us
        self._messages = messages
        self._agenda = agenda
        self._broker = broker
        self._network_us = network_us
        self._random = random
        self._taken = 0
        # Half of the queue, rounded up.
        self._refill_at = (settings.receiver_queue + 1) // 2
        self._hung_at_us = 0
        # Not acknowledged yet: by the time of their acknowledgement, each with the time at which it is done.
        self._done: dict[int, list[tuple[int, int]]] = {}
        # While it hangs: messages that were in process, with the time that they still need, and messages in the queue.
        self._interrupted: list[tuple[int, int]] = []
        self._queued: list[int] = []

    def connected(self, consumer: Consumer) -> None:
        """Asks for messages, because its consumer has joined."""
        self.consumer = consumer
        self._forget()
        self._processing.interrupt(self._agenda.now_us)
        self._agenda.after(2 * self._network_us, self._flow, (consumer, self.settings.receiver_queue))

    def closing(self) -> None:
        """Closes its consumer in order: what is done is acknowledged first."""
        if self.consumer is not None:
            now_us = self._agenda.now_us
            done = [position for _, of_one in sorted(self._done.items()) for at, position in of_one if at <= now_us]
            if done:
                self._broker.acknowledge(self.consumer, done)

    def disconnected(self) -> None:
        """Drops everything that is not acknowledged, because its consumer has left."""
        self.consumer = None
        self._forget()

    def receive(self, positions: list[int]) -> None:
        """Takes entries that were sent to its consumer."""
        if self.hung:
            self._queued += positions
            return
        arrival_us = self._agenda.now_us + self._network_us
        service_of, start_of, start = self._service_us, self._processing.start_us, self._start
        for position in positions:
            service_us = service_of(position)
            start_us = start_of(position, arrival_us, service_us)
            if start_us <= arrival_us:
                start(position, arrival_us, service_us)
            else:
                self._agenda.at(start_us, self._start_later, (self.consumer, position, service_us))

    def hang(self) -> None:
        """Takes and finishes nothing from now on."""
        self.hung, self._hung_at_us = True, self._agenda.now_us

    def resume(self) -> None:
        """Continues what was in process, and then takes what waited in the queue."""
        if not self.hung:
            return
        self.hung = False
        now_us = self._agenda.now_us
        self._processing.interrupt(now_us)
        interrupted, self._interrupted = self._interrupted, []
        queued, self._queued = self._queued, []
        for position, rest_us in interrupted:
            self._finish(position, now_us + rest_us)
        self.receive(queued)

    def _forget(self) -> None:
        self._done, self._interrupted, self._queued, self._taken = {}, [], [], 0

    def _start_later(self, started: tuple[Consumer, int, int]) -> None:
        consumer, position, service_us = started
        if consumer is not self.consumer:
            return
        if self.hung:
            self._queued.append(position)
        else:
            self._start(position, self._agenda.now_us, service_us)

    def _start(self, position: int, start_us: int, service_us: int) -> None:
        """Takes a message from the receiver queue and processes it."""
        done_us = start_us + service_us
        if done_us > self._busy_until_us:
            self.busy_us += done_us - max(start_us, self._busy_until_us)
            self._busy_until_us = done_us
        self._taken += 1 if self._messages is None else self._messages[position]
        if self._taken >= self._refill_at:
            self._agenda.at(start_us + self._network_us, self._flow, (self.consumer, self._taken))
            self._taken = 0
        self._finish(position, done_us)

    def _finish(self, position: int, done_us: int) -> None:
        settings = self.settings
        if settings.nack_ratio and self._random() < settings.nack_ratio:
            at_us = done_us + settings.nack_delay_us + self._network_us
            self._agenda.at(at_us, self._give_back, (self.consumer, position))
            return
        group_us = settings.ack_group_us
        at_us = -(-done_us // group_us) * group_us if group_us else done_us
        of_one = self._done.get(at_us)
        if of_one is None:
            self._done[at_us] = [(done_us, position)]
            self._agenda.at(at_us + self._network_us, self._acknowledge, (self.consumer, at_us))
        else:
            of_one.append((done_us, position))

    def _acknowledge(self, noted: tuple[Consumer, int]) -> None:
        consumer, at_us = noted
        if consumer is not self.consumer:
            return
        done = self._done.pop(at_us, None)
        if done is None:
            return
        if self.hung:
            until_us = self._hung_at_us
            self._interrupted += [(position, done_us - until_us) for done_us, position in done if done_us > until_us]
            done = [found for found in done if found[0] <= until_us]
        if done:
            self._broker.acknowledge(consumer, [position for _, position in done])

    def _flow(self, granted: tuple[Consumer, int]) -> None:
        consumer, permits = granted
        if consumer is self.consumer:
            self._broker.flow(consumer, permits)

    def _give_back(self, given: tuple[Consumer, int]) -> None:
        consumer, position = given
        if consumer is self.consumer:
            self._broker.redeliver(consumer, [position])
