"""Delayed delivery of the simulated broker (contract 4.13)."""

from dataclasses import replace

from simulated import MS, S, audited, client, joins, rows_of, workload_of
from test_flaws import AUTO_SPLIT, HIGH, setup

from dispatch_audit.pipeline.simulate.workload.partition_workload import Action, PartitionWorkload

TICK = "delayedDeliveryTickTimeMillis"
BROKER = {**AUTO_SPLIT, TICK: 10}


def delayed(due: dict[int, int], actions: list[Action] | None = None) -> PartitionWorkload:
    """Ten entries of one key, 10 ms apart; some are due at so many milliseconds."""
    published = [(10 * MS + at * 10 * MS, HIGH) for at in range(10)]
    workload = workload_of(published, [client("a")], [*joins(1), *(actions or [])], end_us=5 * S)
    return replace(workload, deliver_at_us=[due.get(at, -1) * MS if at in due else -1 for at in range(10)])


def sent_at_ms(workload: PartitionWorkload, broker: dict[str, object] | None = None) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for row in rows_of(workload, setup("4.2.4", broker=broker or BROKER)):
        if row["event"] == "dispatch" and row["phase"] == "start":
            found.setdefault(row["entry_id"], []).append(row["ts_us"] // MS)
    return found


def test_a_delayed_entry_is_sent_when_it_is_due_and_later_ones_of_its_hash_pass_it() -> None:
    found = sent_at_ms(delayed({2: 1000, 3: 500}))

    assert max(found[9]) < 200
    assert 490 <= found[3][0] <= 520
    assert 990 <= found[2][0] <= 1020
    assert all(len(times) == 1 for times in found.values())


def test_an_entry_may_be_sent_a_tick_early() -> None:
    found = sent_at_ms(delayed({2: 1000}), {**AUTO_SPLIT, TICK: 2000})

    assert found[2][0] < 200


def test_the_first_consumer_that_joins_again_finds_all_delayed_entries_again() -> None:
    # The tracker is emptied when the last consumer leaves, and the cursor goes back.
    actions = [Action(300 * MS, "close", 0), Action(400 * MS, "join", 0)]
    found = sent_at_ms(delayed({2: 1000}, actions))

    assert 990 <= found[2][0] <= 1020


def test_so_does_an_unload() -> None:
    found = sent_at_ms(delayed({2: 1000}, [Action(300 * MS, "unload")]))

    assert 990 <= found[2][0] <= 1020


def test_without_delayed_delivery_they_are_sent_at_once() -> None:
    off: dict[str, object] = {**BROKER, "delayedDeliveryEnabled": False}

    assert sent_at_ms(delayed({2: 1000}), off)[2][0] < 200


def test_publish_rows_say_when_an_entry_is_due() -> None:
    rows = rows_of(replace(delayed({2: 1000}), start_us=7 * S), setup("4.2.4"))

    assert [row["deliver_at_ms"] for row in rows if row["event"] == "publish"][:4] == [None, None, 8000, None]


def test_a_delay_breaks_no_rule() -> None:
    assert audited(delayed({2: 1000, 3: 500}), setup("4.2.4", broker=BROKER)).broken == {}
