"""Brings a broker into the states that operators ask about: eight kinds, each by what its consumers do.

Which statistics a broker shows in a state is not written here: `state_recording.py` takes them. What a right diagnosis
says of them (`Expected`) follows from what was done.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from churn import SUBSCRIPTION, TOPIC, client_of
from holder import QUEUE, Holder
from recording_broker import RecordingBroker, wait_for

from dispatch_audit.udfs.sticky_key_hash import sticky_hashes

KEYS: Final = [f"key-{number}" for number in range(60)]
LOOK_AHEAD_LIMIT: Final = 6000
"""Entries in replay at which a broker with its default settings reads nothing new for three consumers (contract 4)."""


@dataclass(frozen=True)
class Expected:
    """What a right diagnosis of the statistics says.

    Attributes:
        did: what was done, in words.
        flows: whether messages reach consumers between the two moments: `all`, `some` (others wait), `none`, or `idle`
            (there are none).
        waiting: names of consumers that wait although they could be sent messages.
        held_up_by: names of the consumers that they, or the messages, wait for.
        cause: of docs/BLOCKING.md, why messages wait; empty: nothing is wrong, and no cause may be named.
        also: causes that are true beside it.
        never: causes that a diagnosis must not give.
    """

    did: str
    flows: str
    waiting: tuple[str, ...] = ()
    held_up_by: tuple[str, ...] = ()
    cause: str = ""
    also: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


class Scene:
    """A topic with one subscription, of which the consumers are `Holder`s."""

    def __init__(self, broker: RecordingBroker) -> None:
        self.broker = broker
        self._client = client_of(broker.service_url)
        self._producer = self._client.create_producer(TOPIC, batching_enabled=False, block_if_queue_full=True)
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def close(self) -> None:
        """Ends what the clients do, after the broker is gone: its last state is that of connected consumers."""
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        self._client.shutdown()

    def join(
        self, name: str, *, queue: int = QUEUE, work_s: float = 0, ranges: Sequence[tuple[int, int]] = ()
    ) -> Holder:
        """Lets a consumer join."""
        return Holder(self._client, TOPIC, SUBSCRIPTION, name, queue=queue, work_s=work_s, ranges=ranges)

    def publish(self, keys: Sequence[str]) -> None:
        """Publishes a message of each key, and waits until the broker has all of them."""
        for key in keys:
            self._send(key)
        self._producer.flush()

    def keep_publishing(self, rate: int, keys: Sequence[str] = KEYS) -> None:
        """Publishes messages of the keys in turn, `rate` a second, until the end."""

        def produce() -> None:
            sent = 0
            while not self._stop.is_set():
                self._send(keys[sent % len(keys)])
                sent += 1
                time.sleep(1 / rate)

        self._threads.append(threading.Thread(target=produce, daemon=True))
        self._threads[-1].start()

    def _send(self, key: str) -> None:
        self._producer.send_async(b"0" * 64, lambda *_: None, partition_key=key)

    def subscription(self) -> dict[str, Any]:
        """What the broker says of the subscription now."""
        found: dict[str, Any] = self.broker.answer(TOPIC.replace("://", "/") + "/stats?getPreciseBacklog=true")
        return dict(found["subscriptions"][SUBSCRIPTION])

    def consumer(self, name: str) -> dict[str, Any]:
        """What the broker says of a consumer now."""
        (found,) = [one for one in self.subscription()["consumers"] if one["consumerName"] == name]
        return dict(found)

    def keys_of(self, name: str) -> list[str]:
        """Those of `KEYS` of which a consumer has the hash now."""
        ranges = np.array(self.consumer(name)["keyHashRangeArrays"], dtype=np.int64)
        hashes = sticky_hashes(KEYS, "consistent_hashing")[:, None]
        owned = np.any((ranges[:, 0] <= hashes) & (hashes <= ranges[:, 1]), axis=1)
        return [KEYS[at] for at in np.flatnonzero(owned)]

    def wait_until(self, condition: Callable[[dict[str, Any]], bool], what: str) -> None:
        """Waits until the broker says something of the subscription."""
        wait_for(lambda: condition(self.subscription()), what)


def hung_consumer(scene: Scene) -> None:
    """One of three stops to receive; entries of its hashes fill the replay queue up to the look-ahead limit."""
    hung = scene.join("hung", queue=20)
    scene.join("worker-1")
    scene.join("worker-2")
    scene.publish(KEYS * 3)
    scene.wait_until(lambda found: found["msgBacklog"] == 0, "messages that flow")
    hung.stop()
    of_hung = scene.keys_of("hung")
    scene.publish([of_hung[number % len(of_hung)] for number in range(LOOK_AHEAD_LIMIT + 100)])
    scene.wait_until(lambda found: found["msgInReplay"] >= LOOK_AHEAD_LIMIT, "the look-ahead limit")
    scene.keep_publishing(20)
    scene.wait_until(lambda found: found["msgBacklog"] > LOOK_AHEAD_LIMIT + 150, "messages that are not read")


def draining(scene: Scene) -> None:
    """Two join after a slow one, which holds messages of hashes that move to them."""
    scene.join("slow", work_s=0.04)
    scene.publish(KEYS[:30] * 4 + KEYS[30:] * 4)
    wait_for(lambda: scene.consumer("slow")["unackedMessages"] > 200, "messages at the slow consumer")
    scene.join("new-1")
    scene.join("new-2")
    scene.keep_publishing(30)
    scene.wait_until(lambda found: found["msgInReplay"] > 20, "entries that wait for draining hashes")


def _holds_beside_workers(scene: Scene) -> None:
    """One of three acknowledges nothing from the first message on."""
    holder = scene.join("holder")
    scene.join("worker-1")
    scene.join("worker-2")
    holder.hold()
    scene.keep_publishing(60)


def unacked_limit_of_consumer(scene: Scene) -> None:
    """One of three acknowledges nothing, up to its limit of 50."""
    _holds_beside_workers(scene)
    wait_for(lambda: scene.consumer("holder")["blockedConsumerOnUnackedMsgs"], "a blocked consumer")
    scene.wait_until(lambda found: found["msgInReplay"] > 20, "entries that wait for it")


def unacked_limit_of_subscription(scene: Scene) -> None:
    """One of three acknowledges nothing, up to the limit of 80 of the subscription."""
    _holds_beside_workers(scene)
    scene.wait_until(lambda found: found["blockedSubscriptionOnUnackedMsgs"], "a blocked subscription")
    scene.wait_until(lambda found: found["msgBacklog"] > 150, "messages that are not read")


def paused_consumer(scene: Scene) -> None:
    """One of three asks for nothing more after some messages, and holds none."""
    paused = scene.join("paused", queue=0)
    scene.join("worker-1")
    scene.join("worker-2")
    scene.keep_publishing(60)
    wait_for(lambda: scene.consumer("paused")["msgOutCounter"] > 20, "messages at the consumer")
    paused.stop()
    wait_for(lambda: scene.consumer("paused")["unackedMessages"] == 0, "its last acknowledgement")
    scene.wait_until(lambda found: found["msgInReplay"] > 20, "entries that wait for it")


def gap_of_ranges(scene: Scene) -> None:
    """The STICKY ranges of two consumers leave hashes 20001 to 29999 to nobody."""
    scene.join("low", ranges=[(0, 20_000)])
    scene.join("high", ranges=[(30_000, 65_535)])
    scene.keep_publishing(60)
    scene.wait_until(lambda found: found["msgInReplay"] > 20, "entries that no consumer has")


def healthy_under_load(scene: Scene) -> None:
    """Three consumers take a millisecond for each of 100 messages a second."""
    for number in range(3):
        scene.join(f"worker-{number}", work_s=0.001)
    scene.keep_publishing(100)
    scene.wait_until(lambda found: found["msgOutCounter"] > 300, "messages that flow")


def healthy_and_idle(scene: Scene) -> None:
    """Three consumers have acknowledged all there was."""
    for number in range(3):
        scene.join(f"worker-{number}")
    scene.publish(KEYS * 5)
    scene.wait_until(lambda found: found["msgOutCounter"] == 300 and found["msgBacklog"] == 0, "the last message")
    time.sleep(1)


def backlog_that_is_read(scene: Scene) -> None:
    """Three consumers work through messages that were published while nobody was connected."""
    scene.broker.ask("PUT", f"{TOPIC.replace('://', '/')}/subscription/{SUBSCRIPTION}")
    scene.publish(KEYS * 40)
    for number in range(3):
        scene.join(f"worker-{number}", queue=50, work_s=0.01)
    scene.wait_until(lambda found: found["msgOutCounter"] > 300, "messages that flow")


@dataclass(frozen=True)
class State:
    """A state of a subscription.

    Attributes:
        enter: brings a subscription into it.
        expected: of a diagnosis.
        settings: names of broker.conf to values, where they differ from the defaults.
    """

    enter: Callable[[Scene], None]
    expected: Expected
    settings: Mapping[str, object] = field(default_factory=dict)


_LIMITS: Final = ("unacked_limit_consumer", "unacked_limit_subscription", "look_ahead_limit")

STATES: Final = {
    "hung-consumer": State(
        hung_consumer,
        Expected(
            did="'hung' receives nothing more, and its client asks for no more than 20; 6,100 messages of its hashes "
            "were published, then 20 a second of all hashes. 'worker-1' and 'worker-2' acknowledge at once.",
            flows="none",
            waiting=("worker-1", "worker-2"),
            held_up_by=("hung",),
            cause="look_ahead_limit",
            also=("no_permits",),
            never=("unacked_limit_consumer", "unacked_limit_subscription", "draining", "no_owner"),
        ),
    ),
    "draining": State(
        draining,
        Expected(
            did="'slow' had 240 messages of all hashes and takes 40 ms for each when 'new-1' and 'new-2' joined; 30 "
            "messages a second are published.",
            flows="some",
            waiting=("new-1", "new-2"),
            held_up_by=("slow",),
            cause="draining",
            never=(*_LIMITS, "no_permits", "no_owner"),
        ),
    ),
    "unacked-limit-consumer": State(
        unacked_limit_of_consumer,
        Expected(
            did="'holder' receives and acknowledges nothing, up to maxUnackedMessagesPerConsumer 50; 'worker-1' and "
            "'worker-2' acknowledge at once; 60 messages a second are published.",
            flows="some",
            held_up_by=("holder",),
            cause="unacked_limit_consumer",
            never=("unacked_limit_subscription", "look_ahead_limit", "no_permits", "draining", "no_owner"),
        ),
        {"maxUnackedMessagesPerConsumer": 50},
    ),
    "unacked-limit-subscription": State(
        unacked_limit_of_subscription,
        Expected(
            did="'holder' receives and acknowledges nothing, up to maxUnackedMessagesPerSubscription 80; 'worker-1' "
            "and 'worker-2' acknowledge at once; 60 messages a second are published.",
            flows="none",
            waiting=("worker-1", "worker-2"),
            held_up_by=("holder",),
            cause="unacked_limit_subscription",
            never=("unacked_limit_consumer", "look_ahead_limit", "no_permits", "draining", "no_owner"),
        ),
        {"maxUnackedMessagesPerSubscription": 80},
    ),
    "paused-consumer": State(
        paused_consumer,
        Expected(
            did="'paused' has acknowledged what it got and asks for nothing more; 'worker-1' and 'worker-2' "
            "acknowledge at once; 60 messages a second are published.",
            flows="some",
            held_up_by=("paused",),
            cause="no_permits",
            never=(*_LIMITS, "draining", "no_owner"),
        ),
    ),
    "sticky-gap": State(
        gap_of_ranges,
        Expected(
            did="'low' has the hashes 0 to 20000, 'high' 30000 to 65535, in STICKY mode; nobody has those between. "
            "Both acknowledge at once; 60 messages a second are published.",
            flows="some",
            cause="no_owner",
            never=(*_LIMITS, "no_permits", "draining"),
        ),
    ),
    "healthy-load": State(
        healthy_under_load,
        Expected(
            did="Three consumers acknowledge each of 100 messages a second after a millisecond.",
            flows="all",
        ),
    ),
    "healthy-idle": State(
        healthy_and_idle,
        Expected(
            did="Three consumers have acknowledged all of 300 messages; none was published in the last second.",
            flows="idle",
        ),
    ),
    "backlog-read": State(
        backlog_that_is_read,
        Expected(
            did="2,400 messages were published before three consumers joined, which take 10 ms for each.",
            flows="all",
        ),
    ),
}
