"""What a task is given: a partition of a described workload, or the recorded rows of one subscription."""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.simulate.setup import Setup
from dispatch_audit.pipeline.simulate.workload.described import partition_of
from dispatch_audit.pipeline.simulate.workload.description import WorkloadDescription
from dispatch_audit.pipeline.simulate.workload.from_trace import COLUMNS, workload_from
from dispatch_audit.pipeline.simulate.workload.partition_workload import PartitionWorkload

# The first byte of a payload.
_DESCRIBED: Final = b"D"
_RECORDED: Final = b"R"


class Work(ABC):
    """One partition to simulate."""

    @abstractmethod
    def payload(self) -> bytes:
        """The same as bytes, for `workload_of`."""


@dataclass(frozen=True)
class DescribedPartition(Work):
    """A partition of a described workload, counted from 0."""

    description: WorkloadDescription
    partition: int

    def payload(self) -> bytes:
        """The description as JSON."""
        text = json.dumps({"partition": self.partition, "description": self.description.model_dump(mode="json")})
        return _DESCRIBED + text.encode()


@dataclass(frozen=True)
class RecordedSubscription(Work):
    """The rows of one subscription on one partition, as `explain.trace_rows` reads them."""

    group: Group
    rows: pa.Table

    def payload(self) -> bytes:
        """The rows as an Arrow stream."""
        sink = pa.BufferOutputStream()
        rows = self.rows.select(COLUMNS)
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        return _RECORDED + bytes(sink.getvalue())


def workload_of(payload: bytes, setup: Setup) -> PartitionWorkload:
    """The workload of a payload.

    Raises:
        UsageError: no workload can be taken from recorded rows.
    """
    kind, content = payload[:1], payload[1:]
    if kind == _RECORDED:
        return workload_from(pa.ipc.open_stream(content).read_all(), setup.profile, setup.timing)
    read = json.loads(content)
    return partition_of(WorkloadDescription.model_validate(read["description"]), read["partition"])
