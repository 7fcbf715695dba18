"""A recorder that has lost a topic goes on to say that it runs, which says nothing of the topic."""

import pytest
from local_replay import Columns, recorded_logs, tables_of_logs
from two_recorders import BROKERS, divided

NAME = "unload-4.2.4"


def _with_beat(logs: list[list[Columns]], broker: str) -> list[list[Columns]]:
    """The logs, and a heartbeat of one recorder after all their rows."""
    rows = [row for log in logs for row in log]
    seq = max(row["seq"] for row in rows if row["broker"] == broker)
    later_us = max(row["ts_us"] for row in rows) + 5_000_000
    return [*logs, [{"event": "heartbeat", "broker": broker, "seq": seq + 1, "ts_us": later_us}]]


@pytest.mark.recordings
def test_only_the_recorder_of_the_last_owner_says_for_how_long_the_end_lasted() -> None:
    logs = divided(recorded_logs(NAME), 0).logs
    published = [row for log in logs for row in log if row["event"] == "publish"]
    owner = max(published, key=lambda row: row["ts_us"])["broker"]
    (other,) = {*BROKERS} - {owner}
    alone, former, last = (
        tables_of_logs(NAME, rows) for rows in (logs, _with_beat(logs, other), _with_beat(logs, owner))
    )
    assert former == alone
    assert {table for table in alone if last[table] != alone[table]} == {"consumers"}
