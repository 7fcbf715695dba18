"""Workloads: described in TOML, drawn, and taken from recordings."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from simulated import SETTINGS, S, audited

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.explain.trace_rows import subscription_rows
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.setup import setup_for
from dispatch_audit.pipeline.simulate.traffic import opened
from dispatch_audit.pipeline.simulate.workload.arrivals import arrivals_of
from dispatch_audit.pipeline.simulate.workload.described import partition_of
from dispatch_audit.pipeline.simulate.workload.description import (
    KeysDescription,
    PublishDescription,
    WorkloadDescription,
    read_description,
)
from dispatch_audit.pipeline.simulate.workload.from_trace import workload_from
from dispatch_audit.pipeline.trace import Trace, open_traces

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted((ROOT / "conf/workloads").glob("*.toml"))
SAMPLES = ROOT / "data/samples"

SMALL = """
[topic]
duration_s = 4
[keys]
per_partition = 8
[publish]
rate_per_s = 200
[[clients]]
count = 4
processing_ms = 2
"""


def described(tmp_path: Path, text: str) -> WorkloadDescription:
    path = tmp_path / "workload.toml"
    path.write_text(text)
    return read_description(path)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_workloads_are_complete(path: Path) -> None:
    workload = partition_of(read_description(path), 0)

    assert len(workload) > 0
    assert all(earlier <= later for earlier, later in pairwise(workload.publish_us))


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("[broker]\nversions = '4'", "broker.versions is unknown (did you mean version?)"),
        ("[[events]]\nat_s = 1\nwhat = 'hang'", "events.0: hang needs consumer"),
        ("[[events]]\nat_s = 1\nwhat = 'hang'\nconsumer = 'c9'", "there is no consumer 'c9'"),
        ("[[events]]\nat_s = 1\nwhat = 'rolling_restart'", "events.0: rolling_restart needs for_s and apart_s"),
        ("[[clients]]\ncount = 0\nprocessing_ms = 1", "clients.1.count is 0, less than 1"),
    ],
)
def test_a_wrong_description_is_named_with_its_field(tmp_path: Path, extra: str, message: str) -> None:
    with pytest.raises(UsageError, match="SIMULATION") as caught:
        described(tmp_path, f"{SMALL}\n{extra}")

    assert message in str(caught.value)
    assert "workload.toml" in str(caught.value)


def test_text_that_is_not_toml_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"workload.toml is not TOML: .*line 2"):
        described(tmp_path, "[topic]\nduration_s = \n")


def test_keys_come_at_their_rate_and_are_replaced_after_their_lifetime() -> None:
    keys = KeysDescription(per_partition=10, lifetime_s=5)
    drawn = arrivals_of(keys, PublishDescription(rate_per_s=100), 20, 0, 1)

    assert drawn.publish_us.size == 2000
    for key in range(len(drawn.names)):
        of_key = drawn.publish_us[drawn.keys == key]
        assert of_key[-1] - of_key[0] <= 5 * S
    # 10 places, each with 4 whole lifetimes, and one more that is cut into two.
    assert len(drawn.names) == 49


def test_zipf_gives_the_first_key_its_share() -> None:
    keys = KeysDescription(per_partition=100, distribution="zipf", exponent=1.0)
    drawn = arrivals_of(keys, PublishDescription(rate_per_s=1000, arrivals="poisson"), 20, 0, 1)
    share = np.bincount(drawn.keys).max() / drawn.keys.size

    assert share == pytest.approx(1 / sum(1 / rank for rank in range(1, 101)), rel=0.1)


def test_partitions_are_drawn_by_themselves() -> None:
    keys, publish = KeysDescription(per_partition=3), PublishDescription(rate_per_s=50, arrivals="poisson")
    first, again, other = (arrivals_of(keys, publish, 10, partition, 7) for partition in (0, 0, 1))

    assert first.publish_us.tolist() == again.publish_us.tolist()
    assert first.publish_us.tolist() != other.publish_us.tolist()


def test_a_rolling_restart_breaks_nothing(tmp_path: Path) -> None:
    text = f"{SMALL}\n[[events]]\nat_s = 1\nwhat = 'rolling_restart'\nfor_s = 0.2\napart_s = 0.5\n"
    outcome = audited(partition_of(described(tmp_path, text), 0), setup_for("4.0.8"))

    assert outcome.unexplained == []
    assert len(outcome.tables["assignments"]) > 0
    assert outcome.simulation.cursor.mark_delete + 1 == len(outcome.simulation.workload)


def test_a_hung_consumer_of_a_recording_stalls_the_simulation_when_the_broker_stalled() -> None:
    """The broker sent nothing from 4.79 s to 12.09 s after the first row (the recording's README)."""
    (trace,) = open_traces([SAMPLES / "hung-consumer-4.0.8"])
    manifest = trace.manifest
    profile = profile_for(manifest.pulsar_version, manifest.settings)
    rows = subscription_rows(trace, Group("persistent://public/default/h_hung_consumer", "ks"))
    setup = setup_for(manifest.pulsar_version, manifest.settings)
    simulation = PartitionSimulation(workload_from(rows, profile, setup.timing), setup)
    simulation.run()
    sent_s = [at / 1e6 for at in sorted(simulation.state.first_sent_us)]
    begin, end = max(pairwise(sent_s), key=lambda pair: pair[1] - pair[0])
    recorded = _longest_silence(rows)

    assert begin == pytest.approx(recorded[0], rel=0.05)
    assert end == pytest.approx(recorded[1], rel=0.05)
    assert end - begin == pytest.approx(recorded[1] - recorded[0], rel=0.05)
    assert simulation.progress.measures.replay_peak == pytest.approx(210, rel=0.05)
    assert SETTINGS.blocking.stall_threshold_ms <= (end - begin) * 1000


def _longest_silence(rows: pa.Table) -> tuple[float, float]:
    found = [
        row["ts_us"]
        for row in rows.select(["event", "phase", "ts_us"]).to_pylist()
        if row["event"] == "dispatch" and row["phase"] == "start"
    ]
    first_us = rows["ts_us"][0].as_py()
    begin, end = max(pairwise(found), key=lambda pair: pair[1] - pair[0])
    return (begin - first_us) / 1e6, (end - first_us) / 1e6


def rows_of_starts() -> pa.Table:
    trace = opened(str(ROOT / "tests/data/recorder/broker-restart-4.2.4"))
    assert isinstance(trace, Trace)
    return subscription_rows(trace, Group("persistent://public/default/v424_broker_restart_s1", "ks"))


def kinds_of_actions(rows: pa.Table) -> Counter[str]:
    workload = workload_from(rows, profile_for("4.2.4", {}), setup_for("4.2.4").timing)
    return Counter(action.kind for action in workload.actions)


def test_the_starts_of_a_broker_are_one_workload() -> None:
    rows = rows_of_starts()
    joined = {(row["broker"], row["consumer"]) for row in rows.to_pylist() if row["event"] == "join"}
    assert len({number for _, number in joined}) < len(joined), "each start has numbers of its own"
    kinds = kinds_of_actions(rows)
    assert (kinds["join"], kinds["unload"]) == (len(joined), 3)


def test_a_start_after_a_crash_finds_no_consumer() -> None:
    rows = rows_of_starts()
    of_stop = pc.or_(
        pc.equal(rows["event"], "reset"), pc.fill_null(pc.equal(rows["reason"], "closed_by_broker"), False)
    )
    assert kinds_of_actions(rows.filter(pc.invert(of_stop)))["unload"] == 2


def test_a_move_whose_target_no_row_has_is_refused() -> None:
    recordings = ROOT / "tests/data/traces"
    (trace,) = open_traces([recordings / "seek-4.0.8"])
    rows = subscription_rows(trace, Group("persistent://public/default/sk_seek", "ks"))

    with pytest.raises(UsageError, match="was moved by seek"):
        workload_from(rows, profile_for("4.0.8", {}), setup_for("4.0.8").timing)
