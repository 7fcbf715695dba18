"""A recording whose trace.json says 40 unacknowledged messages a consumer, and a policy of its namespace 3000."""

import json
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.explain.trace_rows import all_rows
from dispatch_audit.pipeline.groups.columns import Rows
from dispatch_audit.pipeline.groups.replay_rows import packed_rows, replayed_rows
from dispatch_audit.pipeline.run.replay_config import replay_config
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.trace import open_traces

FOLDER = Path(__file__).resolve().parents[2] / "data" / "effective_settings" / "policy-max-unacked-3000-4.2.4"
LIMIT = "maxUnackedMessagesPerConsumer"

# It replays a recording.
pytestmark = pytest.mark.recordings


@cache
def tables(value: str | None) -> dict[str, Rows]:
    """The tables of the recording, with a row `settings` in front of its rows if there is a value."""
    (trace,) = open_traces([FOLDER])
    rows = all_rows(trace)
    if value is not None:
        first = rows.slice(0, 1).to_pylist()[0]
        said = {"event": "settings", "seq": 0, "ts_us": first["ts_us"], "broker": first["broker"]}
        said["settings"] = [(LIMIT, value)]
        said["sources"] = [(LIMIT, "namespace")]
        rows = pa.concat_tables([pa.Table.from_pylist([said], rows.schema), rows])
    profile = profile_for(trace.manifest.pulsar_version, trace.manifest.settings)
    config = replay_config(trace.manifest, profile, load_settings(), complete_from_start=True)
    packed = packed_rows(rows.combine_chunks().to_batches(), config)
    (group,) = packed.of_group
    return replayed_rows(packed, group, config)


def test_the_claimed_limit_is_contradicted_once_and_nothing_is_a_violation() -> None:
    found = tables(None)["violations"]
    assert {row["severity"] for row in found} == {"not_provable"}
    (row,) = (row for row in found if row["rule"] == "settings_mismatch")
    reported = json.loads(row["detail"])
    assert (reported["setting"], reported["claimed"], reported["claimed_by"]) == (LIMIT, "40", "trace.json")
    assert {row["rule"] for row in found} == {"settings_mismatch", "unacked_limit"}


def test_nothing_waits_for_the_claimed_limit() -> None:
    assert "unacked_limit_consumer" not in {row["cause"] for row in tables(None)["blocking"]}


def test_with_what_is_in_force_nothing_is_found() -> None:
    assert tables("3000").get("violations", []) == []


def test_a_row_that_claims_as_little_is_contradicted_as_trace_json_is() -> None:
    (row,) = (row for row in tables("39")["violations"] if row["rule"] == "settings_mismatch")
    reported = json.loads(row["detail"])
    assert (reported["claimed"], reported["claimed_by"], reported["claimed_seq"]) == ("39", "settings row", 0)
