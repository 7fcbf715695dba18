"""Records the statistics of healthy subscriptions under several kinds of load, each twice, from one broker.

As a program it writes a file for each kind of load into a folder, with the commands before the documents:

    export PYTHONPATH=.:tests:tests/recorder:tests/recording
    python tests/recorder/load_recording.py FOLDER [RELEASE [NAME ...]]

Hash ranges are left out, except of STICKY subscriptions: they are most of the text, and no diagnosis reads them.
"""

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pulsar
from churn import SUBSCRIPTION, client_of
from real_broker import NEWEST
from recording_broker import RecordingBroker, recording_broker

KEYS = [f"key-{number}" for number in range(60)]
APART_S = 4.0
Message = Callable[[int], dict[str, Any]]


class Load:
    """One topic with its producer and consumers, each of which works in a thread until the end."""

    def __init__(self, broker: RecordingBroker, name: str) -> None:
        self.broker = broker
        self.topic = f"persistent://public/default/{name}"
        self.client = client_of(broker.service_url)
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def close(self) -> None:
        """Ends what the clients do."""
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        self.client.shutdown()

    def run(self, work: Callable[[], None]) -> None:
        """Does `work` again and again in a thread, until the end."""

        def loop() -> None:
            while not self._stop.is_set():
                try:
                    work()
                except (pulsar.Timeout, pulsar.AlreadyClosed):
                    continue

        self._threads.append(threading.Thread(target=loop, daemon=True))
        self._threads[-1].start()

    def subscribe(self, name: str, queue: int = 1000, ranges: Sequence[tuple[int, int]] = ()) -> pulsar.Consumer:
        """A consumer that does nothing yet."""
        mode = pulsar.KeySharedMode.Sticky if ranges else pulsar.KeySharedMode.AutoSplit
        return self.client.subscribe(
            self.topic,
            SUBSCRIPTION,
            consumer_type=pulsar.ConsumerType.KeyShared,
            consumer_name=name,
            receiver_queue_size=queue,
            negative_ack_redelivery_delay_ms=200,
            key_shared_policy=pulsar.ConsumerKeySharedPolicy(mode, sticky_ranges=list(ranges) or None),
        )

    def consume(
        self,
        name: str,
        queue: int = 1000,
        work_s: float = 0.001,
        ranges: Sequence[tuple[int, int]] = (),
        together: int = 1,
    ) -> None:
        """A consumer that acknowledges `together` messages after it has worked on each."""
        consumer, held = self.subscribe(name, queue, ranges), []

        def work() -> None:
            held.append(consumer.receive(100))
            time.sleep(work_s)
            if len(held) >= together:
                for message in held:
                    consumer.acknowledge(message)
                held.clear()

        self.run(work)

    def publish(self, rate: int, message: Message | None = None, batched: bool = False) -> None:
        """Publishes `rate` messages a second; `message` gives the arguments of the nth."""
        kind = pulsar.BatchingType.KeyBased
        producer = self.client.create_producer(self.topic, batching_enabled=batched, batching_type=kind)
        sent = [0]

        def work() -> None:
            more = message(sent[0]) if message is not None else {"partition_key": KEYS[sent[0] % len(KEYS)]}
            producer.send_async(b"0" * 64, lambda *_: None, **more)
            sent[0] += 1
            time.sleep(1 / rate)

        self.run(work)


def steady(load: Load) -> None:
    """Three consumers take a millisecond for each of 100 messages a second."""
    for number in range(3):
        load.consume(f"worker-{number}")
    load.publish(100)


def batched(load: Load) -> None:
    """Batches of one key, 500 messages a second."""
    for number in range(3):
        load.consume(f"worker-{number}", queue=100)
    load.publish(500, batched=True)


def slow_workers(load: Load) -> None:
    """Queues of 10 and 50 ms for each message: the consumers are slower than the producer."""
    for number in range(3):
        load.consume(f"worker-{number}", queue=10, work_s=0.05)
    load.publish(100)


def one_key(load: Load) -> None:
    """All messages have one key, so one of three consumers gets all."""
    for number in range(3):
        load.consume(f"worker-{number}")
    load.publish(100, lambda _: {"partition_key": "hot"})


def churn(load: Load) -> None:
    """Consumers join and leave twice a second."""
    load.consume("stays", work_s=0.005)
    load.publish(100)

    def come_and_go() -> None:
        guest = load.subscribe("guest", queue=50)
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            guest.acknowledge(guest.receive(100))
        guest.close()

    load.run(come_and_go)


def bursts(load: Load) -> None:
    """300 messages at once, then nothing for two seconds."""
    for number in range(3):
        load.consume(f"worker-{number}", queue=50, work_s=0.01)
    producer = load.client.create_producer(load.topic, batching_enabled=False)

    def work() -> None:
        for number in range(300):
            producer.send_async(b"0" * 64, lambda *_: None, partition_key=KEYS[number % len(KEYS)])
        producer.flush()
        time.sleep(2)

    load.run(work)


def delayed(load: Load) -> None:
    """Every second message is to be delivered 20 s later."""
    for number in range(2):
        load.consume(f"worker-{number}")

    def message(number: int) -> dict[str, Any]:
        later = {"deliver_after": timedelta(seconds=20)} if number % 2 else {}
        return {"partition_key": KEYS[number % len(KEYS)], **later}

    load.publish(50, message)


def only_delayed(load: Load) -> None:
    """All messages are to be delivered an hour later: nothing can be sent."""
    for number in range(2):
        load.consume(f"worker-{number}")
    load.publish(50, lambda number: {"partition_key": KEYS[number % 60], "deliver_after": timedelta(hours=1)})


def nacks(load: Load) -> None:
    """One consumer asks for each third message again."""
    load.consume("worker-0")
    picky, number = load.subscribe("picky", queue=50), [0]

    def work() -> None:
        message = picky.receive(100)
        number[0] += 1
        (picky.negative_acknowledge if number[0] % 3 == 0 else picky.acknowledge)(message)

    load.run(work)
    load.publish(100)


def sticky(load: Load) -> None:
    """Two consumers that declare all hashes between them."""
    load.consume("low", ranges=[(0, 32_767)])
    load.consume("high", ranges=[(32_768, 65_535)])
    load.publish(100)


def long_work(load: Load) -> None:
    """Queues of 5, and 8 s for each message: nothing is sent between the dumps, and hundreds wait."""
    for number in range(2):
        load.consume(f"worker-{number}", queue=5, work_s=8)
    load.publish(50)


def acknowledges_together(load: Load) -> None:
    """One consumer acknowledges 300 messages at once, the others each."""
    load.consume("collector", together=300)
    load.consume("worker-1")
    load.publish(100)


def small_queues(load: Load) -> None:
    """Queues of one message."""
    for number in range(3):
        load.consume(f"worker-{number}", queue=1, work_s=0.002)
    load.publish(100)


def rate_limited(load: Load) -> None:
    """A dispatch rate of 20 messages a second for the topic, and 100 published."""
    limits = {"dispatchThrottlingRateInMsg": 20, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
    load.broker.ask("POST", "namespaces/public/default/subscriptionDispatchRate", limits)
    for number in range(2):
        load.consume(f"worker-{number}")
    load.publish(100)


LOADS = {
    one.__name__.replace("_", "-"): one
    for one in (
        steady,
        batched,
        slow_workers,
        one_key,
        churn,
        bursts,
        delayed,
        only_delayed,
        nacks,
        sticky,
        long_work,
        acknowledges_together,
        small_queues,
        # The last one, because its policy stays.
        rate_limited,
    )
}


def record(broker: RecordingBroker, name: str, into: Path) -> None:
    """Writes both moments of a load."""
    load = Load(broker, name)
    LOADS[name](load)
    time.sleep(6)
    with into.open("w") as file, tempfile.TemporaryDirectory() as folder:
        for moment in (1, 2):
            for command in ("stats", "stats-internal"):
                printed = Path(folder) / f"{command}-{moment}.json"
                taken = datetime.now(timezone.utc)
                broker.print_statistics(command, load.topic, printed)
                document = _without_ranges(json.loads(printed.read_text()))
                file.write(
                    f"{taken:%Y-%m-%dT%H:%M:%S}.{taken.microsecond // 1000:03}Z $ pulsar-admin topics {command} "
                )
                file.write(f"{load.topic}\n{json.dumps(document, separators=(',', ':'))}\n")
            if moment == 1:
                time.sleep(APART_S)
    load.close()


def _without_ranges(document: Any) -> Any:
    for one in document.get("subscriptions", {}).values():
        if one.get("keySharedMode") != "STICKY":
            for consumer in one["consumers"]:
                consumer.pop("keyHashRangeArrays", None)
                consumer.pop("keyHashRanges", None)
    return document


def main() -> None:
    folder, release = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else NEWEST
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        traces = Path(made) / "traces"
        traces.mkdir()
        with recording_broker(traces, release) as broker:
            for name in sys.argv[3:] or LOADS:
                target = folder / f"{name}-{release}.txt"
                record(broker, name, target)
                print(target, flush=True)


if __name__ == "__main__":
    main()
