"""The identity of a finding: which of its values it is made of, and that it stays the same."""

import pytest
from local_replay import LOW, Columns, Log, recorded_logs, recorded_tables, tables_of, tables_of_logs
from recorded import of_each

from dispatch_audit.pipeline.groups.findings_rows import with_finding_ids

FINDING: Columns = {
    "rule": "single_holder",
    "topic": "persistent://shop/eu/orders-partition-0",
    "subscription": "workers",
    "broker": None,
    "seq": 20,
    "sticky_hash": 4711,
    "key_id": -5,
    "ledger_id": 7,
    "entry_id": 120,
    "consumer": 2,
    "other_consumer": 1,
}


def ids_of(*findings: Columns) -> list[str]:
    return list(with_finding_ids({name: [row.get(name) for row in findings] for name in findings[0]})["finding_id"])


@pytest.mark.parametrize("name", FINDING)
def test_findings_that_differ_in_what_identifies_them_have_different_ids(name: str) -> None:
    other = {**FINDING, name: 99 if isinstance(FINDING[name], int) else "another"}
    # Each by itself, so that it is not the number among equal findings that distinguishes them.
    assert ids_of(FINDING) != ids_of(other)


def test_a_finding_is_the_same_however_it_is_judged_and_worded() -> None:
    before = {**FINDING, "severity": "violation", "explanation": "red held it", "epoch": 3, "ts_us": 5}
    after = {**FINDING, "severity": "known_bug", "explanation": "in other words", "epoch": 4, "ts_us": 6}
    assert ids_of(before) == ids_of(after)


def test_equal_findings_are_numbered() -> None:
    first, second = ids_of(FINDING, FINDING)
    assert [first] == ids_of(FINDING)
    assert first != second


@of_each(["hash-unblock-1-4.0.1"])
def test_findings_of_a_recording_have_an_id_each_the_same_however_its_logs_are_read(name: str) -> None:
    ids = [row["finding_id"] for row in recorded_tables(name)["violations"]]
    assert len(set(ids)) == len(ids) > 0
    assert all(len(finding_id) == 12 and int(finding_id, 16) >= 0 for finding_id in ids)
    again = tables_of_logs(name, list(reversed(recorded_logs(name))))["violations"]
    assert [row["finding_id"] for row in again] == ids


def test_findings_of_a_recorder_keep_their_ids_when_the_log_of_another_is_added() -> None:
    first, second, third = Log(now_us=1_000_000_000), Log(now_us=2_000_000_000), Log(now_us=3_000_000_000)
    for log in (first, second, third):
        log.join(1)
        log.join(2)
    second.publish(0, LOW)
    second.dispatch(1, 0, LOW)
    second.ack(1, 0)
    b, c, a = (
        [{**row, "broker": name} for row in log.rows] for name, log in (("b", second), ("c", third), ("a", first))
    )
    (of_two,), (of_three,) = (tables_of(rows)["violations"] for rows in ([*b, *c], [*b, *c, *a]))
    assert of_two["finding_id"] == of_three["finding_id"]
