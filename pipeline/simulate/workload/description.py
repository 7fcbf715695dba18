"""Describes a workload in TOML: partitions, keys, rates, clients and events; read and checked here.

`conf/workloads/` has descriptions to begin with, and docs/SIMULATION.md the meaning of each field.
"""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.messages.model_errors import in_words

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_WAY_OUT = "docs/SIMULATION.md lists every field"

Seconds = Annotated[float, Field(ge=0, le=1_000_000)]
Rate = Annotated[float, Field(gt=0, le=10_000_000)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TopicDescription(_Section):
    """The topic; each partition has a dispatcher of its own, and they do not interact."""

    name: str = Field(default="persistent://public/default/simulated", min_length=1)
    subscription: str = Field(default="ks", min_length=1)
    partitions: int = Field(default=1, ge=1, le=10_000)
    duration_s: float = Field(gt=0, le=1_000_000)
    drain_s: Seconds = 60
    seed: int = 0


class KeysDescription(_Section):
    """The keys that are published at one time, in each partition."""

    per_partition: int = Field(ge=1, le=1_000_000)
    distribution: Literal["uniform", "zipf"] = "uniform"
    exponent: float = Field(default=1.0, gt=0, le=10)
    lifetime_s: float | None = Field(default=None, gt=0)


class PublishDescription(_Section):
    """How often a message is published in each partition."""

    rate_per_s: Rate
    arrivals: Literal["regular", "poisson"] = "regular"
    size_bytes: int = Field(default=1024, ge=1)


class ClientDescription(_Section):
    """Clients of one kind; each has a consumer in every partition, named `name-0` and so on."""

    count: int = Field(ge=1, le=10_000)
    name: str = Field(default="consumer", min_length=1)
    receiver_queue: int = Field(default=1000, ge=1)
    processing_ms: float = Field(ge=0)
    threads: Annotated[int, Field(ge=1)] | Literal["per_key", "unlimited"] = 1
    ack_group_ms: float = Field(default=100, ge=0)
    nack_ratio: float = Field(default=0, ge=0, le=1)
    nack_delay_ms: float = Field(default=60_000, ge=100)
    join_at_s: Seconds = 0
    join_apart_ms: float = Field(default=1, ge=0)


class EventDescription(_Section):
    """Something that happens at a time; `for_s` ends a hang, or brings a leaver back."""

    at_s: Seconds
    what: Literal[
        "hang", "close", "crash", "processing", "rolling_restart", "expire", "skip", "clear", "seek", "unload"
    ]
    consumer: str | None = None
    for_s: float | None = Field(default=None, gt=0)
    apart_s: float | None = Field(default=None, gt=0)
    processing_ms: float | None = Field(default=None, ge=0)
    entries: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _complete(self) -> "EventDescription":
        needed = {
            **dict.fromkeys(("hang", "close", "crash"), ("consumer",)),
            "processing": ("consumer", "processing_ms"),
            "rolling_restart": ("for_s", "apart_s"),
            **dict.fromkeys(("expire", "skip", "seek"), ("entries",)),
        }
        missing = [name for name in needed.get(self.what, ()) if getattr(self, name) is None]
        if missing:
            raise ValueError(f"{self.what} needs {' and '.join(missing)}")
        return self


class BrokerDescription(_Section):
    """The broker: its version, and the settings of broker.conf that differ from the defaults of its line."""

    version: str = "4.0.8"
    settings: dict[str, bool | int | float] = {}


class WorkloadDescription(_Section):
    """A workload; `seed` decides everything that is drawn for it."""

    topic: TopicDescription
    keys: KeysDescription
    publish: PublishDescription
    clients: tuple[ClientDescription, ...] = Field(min_length=1)
    events: tuple[EventDescription, ...] = ()
    broker: BrokerDescription = BrokerDescription()

    @property
    def names(self) -> list[str]:
        """The names of all clients, in the order of their description."""
        return [f"{kind.name}-{number}" for kind in self.clients for number in range(kind.count)]

    @model_validator(mode="after")
    def _known_names(self) -> "WorkloadDescription":
        if len(set(self.names)) < len(self.names):
            raise ValueError("two kinds of clients have one name")
        for event in self.events:
            if event.consumer is not None and event.consumer not in self.names:
                raise ValueError(f"there is no consumer {event.consumer!r}, only {self.names[0]} to {self.names[-1]}")
        return self


def read_description(path: Path) -> WorkloadDescription:
    """Returns the workload that a file describes.

    Raises:
        UsageError: the file is missing, is not TOML, or describes no workload.
    """
    try:
        read: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the workload {path}: {error.strerror}", "check the path") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}", "correct it; conf/workloads has examples") from None
    try:
        return WorkloadDescription.model_validate(read)
    except ValidationError as error:
        raise UsageError(f"{path}: {in_words(error, read, WorkloadDescription)}", _WAY_OUT) from None
