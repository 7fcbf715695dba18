"""Simulates a partition and audits what it wrote, in this process and without Spark."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import Any, Final

import pyarrow as pa
from displaced import displaced

from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.simulate.clients.client import ClientSettings
from dispatch_audit.pipeline.simulate.judge import batches_of, config_of, judged, rows_by_table, tables_of
from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.setup import Setup
from dispatch_audit.pipeline.simulate.workload.partition_workload import Action, ClientPlan, PartitionWorkload

SETTINGS: Final = load_settings()
MS: Final = 1000
S: Final = 1_000_000

# Reads overlap beyond the signature of F10 in rows (contract 6.6): nothing after a block was sent before it, so no row
# shows that it came from replay; or three reads overlap, where recordings have two, and what the second of them could
# not send is in replay again, after entries that came back meanwhile, or until its consumer has permits again. And what
# is sent twice passes entries that a consumer held which left between the two.
_BEYOND_ROWS: Final = (
    "a normal read sent it the first time",
    "it was sent more than twice",
    "in another order the second time",
    "came back, after the first of them was sent",
    "no read that was in flight then had it",
    "more time passed between the two dispatches than a read takes",
    "it had been returned when its consumer left",
)


@dataclass(frozen=True)
class Audited:
    """A simulated partition and the tables of its audit."""

    simulation: PartitionSimulation
    tables: dict[str, list[dict[str, Any]]]

    @cached_property
    def findings(self) -> Counter[tuple[str, str]]:
        """How many findings there are by rule and severity."""
        return Counter((row["rule"], row["severity"]) for row in self.tables.get("violations", []))

    @cached_property
    def broken(self) -> Counter[str]:
        """Findings that break the contract by rule, whether or not a known bug explains them."""
        found: Counter[str] = Counter()
        for (rule, severity), number in self.findings.items():
            if severity in {"violation", "known_bug"}:
                found[rule] += number
        return found

    @cached_property
    def unexplained(self) -> list[str]:
        """The violations that no known bug explains, nor an overlap of reads beyond what rows show of it."""
        overlapped = self.simulation.state.overlapped
        return [
            row["explanation"]
            for row in self.tables.get("violations", [])
            if row["severity"] == "violation"
            and not (row.get("entry_id") in overlapped and any(limit in row["explanation"] for limit in _BEYOND_ROWS))
        ]

    def known_bugs(self) -> Counter[str]:
        """The known bugs that the audit recognised, by id."""
        named = (row["known_bug"] for row in self.tables.get("violations", []) if row["severity"] == "known_bug")
        return Counter(bug.split()[0] for names in named for bug in names.split(", "))


def audited(workload: PartitionWorkload, setup: Setup) -> Audited:
    """Simulates and audits one partition."""
    simulation = PartitionSimulation(workload, setup)
    tables = judged(simulation, SETTINGS)
    assert tables["coverage"][0]["rows_refused"] == 0, tables.get("refused")
    return Audited(simulation, tables)


def audited_as_recorded(
    workload: PartitionWorkload, setup: Setup, rng: Random, without: Collection[tuple[str, str]] = ()
) -> Audited:
    """Simulates a partition and audits its rows as a recorder would have written them.

    Args:
        workload: of the partition.
        setup: of the simulation.
        rng: draws how far the rows move.
        without: the events and phases that the recorder does not write.
    """
    simulation = PartitionSimulation(workload, setup)
    batch = displaced(
        pa.Table.from_batches(list(batches_of(simulation))), rng, 0.8 * min(setup.timing.network_us, 3 * MS)
    )
    sides = zip(batch.column("event").to_pylist(), batch.column("phase").to_pylist(), strict=True)
    batch = batch.filter(pa.array([side not in without for side in sides]))
    config = replace(config_of(setup, SETTINGS), skew_us=SETTINGS.trace.recorder_skew_us)
    tables = rows_by_table(tables_of([batch], workload, config))
    assert tables["coverage"][0]["rows_refused"] == 0, tables.get("refused")
    return Audited(simulation, tables)


def rows_of(workload: PartitionWorkload, setup: Setup) -> list[dict[str, Any]]:
    """The rows that a simulated partition writes."""
    batches = list(batches_of(PartitionSimulation(workload, setup)))
    rows: list[dict[str, Any]] = pa.Table.from_batches(batches).to_pylist()
    return rows


def sent(workload: PartitionWorkload, setup: Setup) -> list[tuple[int, int]]:
    """Consumer and entry of each dispatch, in their order."""
    rows = rows_of(workload, setup)
    return [
        (row["consumer"], row["entry_id"]) for row in rows if row["event"] == "dispatch" and row["phase"] == "start"
    ]


def workload_of(
    published: Sequence[tuple[int, bytes]],
    clients: Sequence[ClientPlan],
    actions: Sequence[Action],
    end_us: int = 10 * S,
) -> PartitionWorkload:
    """A workload by hand: entries as (microseconds, key)."""
    keys = sorted({key for _, key in published})
    return PartitionWorkload(
        topic="persistent://public/default/by-hand",
        subscription="ks",
        publish_us=[at for at, _ in published],
        keys=[keys.index(key) for _, key in published],
        key_bytes=keys,
        clients=clients,
        actions=sorted(actions, key=lambda action: action.at_us),
        end_us=end_us,
    )


def client(name: str, *, queue: int = 1000, service_us: int = MS, threads: int = -1, **more: Any) -> ClientPlan:
    """A client that acknowledges each message at once when it is done."""
    return ClientPlan(name, ClientSettings(queue, ack_group_us=0, **more), threads, service_us)


def joins(number: int, apart_us: int = MS) -> list[Action]:
    """The joins of so many clients, one after the other."""
    return [Action(at * apart_us, "join", at) for at in range(number)]
