"""What happens on brokers that a second observer watches: consumers at their limit, and bursts under load."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pulsar
from churn import SUBSCRIPTION, TOPIC, client_of
from holder import Holder
from recording_broker import RecordingBroker, wait_for

LIMIT: Final = 50
"""Of the messages that a consumer may hold: the entries after them wait in the broker."""
KEYS: Final = [f"key-{number}" for number in range(60)]
BURSTS: Final = 3
GUESTS: Final = 8
"""Consumers that join at once, and leave at once."""
LAG_S: Final = 0.004
"""The work on a message; the acknowledgement of the last one in a queue lags by that of all before it."""
PAUSE_S: Final = 0.04
"""Between two messages of a key: the consumers that stay acknowledge half of what is published."""


class Look(NamedTuple):
    """What the broker said of the subscription when nothing moved.

    Attributes:
        ts_us: when, by the clock that the broker has too.
        stats: of the admin API.
    """

    ts_us: int
    stats: dict[str, Any]


class Scene:
    """Consumers of a subscription, of which some hold what they get until they are let go."""

    def __init__(self, broker: RecordingBroker) -> None:
        self.broker = broker
        self._client = client_of(broker.service_url)
        self._producer = self._client.create_producer(TOPIC, batching_enabled=False, block_if_queue_full=True)
        self.looks: list[Look] = []
        """Each time that nothing moved."""

    def join(self, name: str, client: pulsar.Client | None = None, *, lag_s: float = 0, queue: int = 1000) -> Holder:
        """Lets a consumer join, which works on its messages one by one."""
        return Holder(client or self._client, TOPIC, SUBSCRIPTION, name, queue=queue, work_s=lag_s)

    def join_and_hold(self, name: str, client: pulsar.Client | None = None) -> Holder:
        """Lets a consumer join, which acknowledges nothing until it is let go."""
        holder = self.join(name, client)
        holder.hold()
        return holder

    def burst(self, number: int) -> None:
        """Lets consumers join at once, and leave at once with what lies in their queues, half of them by a crash."""
        leave, crash = client_of(self.broker.service_url), client_of(self.broker.service_url)
        with ThreadPoolExecutor(GUESTS) as pool:
            guests = list(
                pool.map(
                    lambda at: self.join(f"guest-{number}-{at}", (leave, crash)[at % 2], lag_s=LAG_S, queue=LIMIT),
                    range(GUESTS),
                )
            )
            time.sleep(0.4)
            list(pool.map(Holder.stop, guests))
            list(pool.map(lambda end: end(), (leave.close, crash.shutdown)))

    def publish(self, each: int) -> None:
        """Publishes messages of each key, and waits until the broker has them."""
        for key in KEYS * each:
            self._send(key)
        self._producer.flush()

    @contextmanager
    def load(self) -> Iterator[None]:
        """Publishes messages of all keys while its body runs."""
        done = threading.Event()

        def produce() -> None:
            while not done.is_set():
                for key in KEYS:
                    self._send(key)
                time.sleep(PAUSE_S)

        thread = threading.Thread(target=produce)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(30)
        self._producer.flush()

    def _send(self, key: str) -> None:
        self._producer.send_async(b"0", lambda *_: None, partition_key=key)

    def close(self) -> None:
        """Ends all consumers that are left."""
        self._client.close()

    def wait(self, condition: Callable[[dict[str, Any]], bool], what: str) -> None:
        """Waits until something holds of the subscription's statistics."""
        wait_for(lambda: condition(self._look().stats), what)

    def wait_until(self, condition: Callable[[dict[str, Any]], bool], what: str) -> None:
        """Waits until something holds of the subscription's statistics, and nothing moves any more."""
        counted: list[int] = []

        def rests() -> bool:
            nonlocal counted
            now = self._look()
            before, counted = counted, [now.stats[name] for name in ("msgOutCounter", "unackedMessages", "msgBacklog")]
            if counted == before and condition(now.stats):
                self.looks.append(now)
                return True
            time.sleep(0.5)
            return False

        wait_for(rests, what)

    def _look(self) -> Look:
        ts_us = time.time_ns() // 1000
        topic = self.broker.answer(TOPIC.replace("://", "/") + "/stats?getPreciseBacklog=true")
        return Look(ts_us, topic["subscriptions"][SUBSCRIPTION])


def old_are_at_their_limit(stats: dict[str, Any]) -> bool:
    """Whether the first two consumers may be sent nothing more."""
    held = {consumer["consumerName"]: consumer["unackedMessages"] for consumer in stats["consumers"]}
    return min(int(held["a"]), int(held["b"])) >= LIMIT


def consumers_at_their_limit(scene: Scene) -> list[Look]:
    """Consumers reach their limit, others join and leave meanwhile, and all are let go, the newcomers last."""
    old = [scene.join_and_hold("a"), scene.join_and_hold("b")]
    scene.publish(5)
    scene.wait_until(old_are_at_their_limit, "two consumers at their limit")
    leaves = client_of(scene.broker.service_url)
    scene.join_and_hold("leaves", leaves)
    new = [scene.join_and_hold("c")]
    scene.wait_until(old_are_at_their_limit, "what the newcomers are sent")
    leaves.close()
    new.append(scene.join_and_hold("d"))
    scene.publish(2)
    scene.wait_until(old_are_at_their_limit, "what the newcomers are sent")
    for holders in (old, new):
        for holder in holders:
            holder.let_go()
        scene.wait_until(lambda _: True, "acknowledgements")
    scene.wait_until(lambda stats: stats["msgBacklog"] == 0, "the last acknowledgement")
    return scene.looks


def bursts_under_load(scene: Scene) -> list[Look]:
    """Many consumers join and leave at once, again and again, while messages flow that all acknowledge late."""
    residents = [scene.join(name, lag_s=LAG_S, queue=LIMIT) for name in ("a", "b", "c")]
    with scene.load():
        scene.wait(lambda stats: stats["msgOutCounter"] > 4 * LIMIT, "messages that flow")
        for number in range(BURSTS):
            scene.wait(lambda stats: stats["msgBacklog"] > 10 * LIMIT, "entries that wait for consumers at their limit")
            scene.burst(number)
        for resident in residents:
            resident.hold()
        scene.wait(lambda stats: stats["msgBacklog"] > 20 * LIMIT, "enough to hold and to go on with")
    # One that was at its limit when it began to hold is sent nothing more before it is at half of it (contract 4.14).
    scene.wait_until(lambda stats: 2 * stats["unackedMessages"] >= 3 * LIMIT, "what they may hold")
    newcomers = [scene.join_and_hold(name) for name in ("d", "e")]
    scene.wait_until(lambda stats: len(stats["consumers"]) == 5, "what the newcomers are sent")
    sent = scene.looks[-1].stats["msgOutCounter"]
    for holder in (*residents, *newcomers):
        holder.let_go()
    scene.wait(lambda stats: stats["msgOutCounter"] > sent + 10 * LIMIT, "messages that flow again")
    for holder in (*residents, *newcomers):
        holder.stop()
    return scene.looks
