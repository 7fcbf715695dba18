"""Resolves a described workload into what happens in one of its partitions."""

from collections.abc import Iterator, Sequence

from dispatch_audit.pipeline.simulate.clients.client import ClientSettings
from dispatch_audit.pipeline.simulate.workload.arrivals import arrivals_of
from dispatch_audit.pipeline.simulate.workload.description import (
    ClientDescription,
    EventDescription,
    WorkloadDescription,
)
from dispatch_audit.pipeline.simulate.workload.partition_workload import Action, ClientPlan, PartitionWorkload

START_US = 1_767_225_600_000_000
"""Wall clock of the start of a described workload: 2026-01-01 UTC."""

_THREADS = {"per_key": 0, "unlimited": -1}


def partition_of(description: WorkloadDescription, partition: int) -> PartitionWorkload:
    """The workload of one partition, counted from 0."""
    topic = description.topic
    drawn = arrivals_of(description.keys, description.publish, topic.duration_s, partition, topic.seed)
    clients = [_client(kind, number) for kind in description.clients for number in range(kind.count)]
    actions = [*_joins(description.clients), *_events(description)]
    name = topic.name if topic.partitions == 1 else f"{topic.name}-partition-{partition}"
    return PartitionWorkload(
        topic=name,
        subscription=topic.subscription,
        publish_us=drawn.publish_us.tolist(),
        keys=drawn.keys.tolist(),
        key_bytes=drawn.names,
        clients=clients,
        actions=sorted(actions, key=lambda action: action.at_us),
        end_us=_us(topic.duration_s + topic.drain_s),
        start_us=START_US,
        sizes=[description.publish.size_bytes] * drawn.publish_us.size,
    )


def _us(seconds: float) -> int:
    return round(seconds * 1_000_000)


def _client(kind: ClientDescription, number: int) -> ClientPlan:
    threads = kind.threads if isinstance(kind.threads, int) else _THREADS[kind.threads]
    settings = ClientSettings(
        receiver_queue=kind.receiver_queue,
        ack_group_us=_us(kind.ack_group_ms / 1000),
        nack_ratio=kind.nack_ratio,
        nack_delay_us=_us(kind.nack_delay_ms / 1000),
    )
    return ClientPlan(f"{kind.name}-{number}", settings, threads, _us(kind.processing_ms / 1000))


def _joins(kinds: Sequence[ClientDescription]) -> Iterator[Action]:
    client = 0
    for kind in kinds:
        for number in range(kind.count):
            yield Action(_us(kind.join_at_s + number * kind.join_apart_ms / 1000), "join", client)
            client += 1


def _events(description: WorkloadDescription) -> Iterator[Action]:
    names = description.names
    for event in description.events:
        client = names.index(event.consumer) if event.consumer is not None else -1
        if event.what == "rolling_restart":
            for number in range(len(names)):
                yield from _absence("close", _us(event.at_s + number * (event.apart_s or 0)), event, number)
        elif event.what in {"close", "crash"}:
            yield from _absence(event.what, _us(event.at_s), event, client)
        elif event.what == "hang":
            yield Action(_us(event.at_s), "hang", client)
            if event.for_s is not None:
                yield Action(_us(event.at_s + event.for_s), "resume", client)
        elif event.what == "processing":
            yield Action(_us(event.at_s), "processing", client, _us((event.processing_ms or 0) / 1000))
        else:
            yield Action(_us(event.at_s), event.what, -1, event.entries or 0)


def _absence(kind: str, at_us: int, event: EventDescription, client: int) -> Iterator[Action]:
    yield Action(at_us, "close" if kind == "close" else "crash", client)
    if event.for_s is not None:
        yield Action(at_us + _us(event.for_s), "join", client)
