"""A clock that goes back: times say nothing of what came after, and the audit says so."""

from typing import Any

from local_replay import LOW, NO_RATES, Log, say, tables_of

HOUR_US = 3_600_000_000


def _tables(back_us: int, *, twice: bool = False) -> dict[str, Any]:
    """Entries that are sent at once; in the middle the clock goes back, and then an entry may be sent twice."""
    log = Log()
    log.now_us += HOUR_US
    say(log, **NO_RATES)
    log.join(1)
    log.flow(1, 1_000)
    for entry in range(10):
        if entry == 5:
            log.now_us -= back_us
        log.publish(entry, LOW)
        log.dispatch(1, entry, LOW, count=0)
        log.ack(1, entry)
    if twice:
        log.dispatch(1, 9, LOW, count=0)
    return tables_of(log.rows)


def test_what_lasted_how_long_is_not_known() -> None:
    (coverage,) = _tables(HOUR_US)["coverage"]
    assert (coverage["order_verdict"], coverage["progress"]) == ("kept", "not_provable")
    assert coverage["missing"] == ["clock"]


def test_rows_of_threads_may_be_a_moment_behind() -> None:
    (coverage,) = _tables(500_000)["coverage"]
    assert (coverage["order_verdict"], coverage["progress"], coverage["missing"]) == ("kept", "flowing", [])


def test_a_violation_after_it_is_not_proven() -> None:
    for back_us, severity in ((0, "violation"), (HOUR_US, "not_provable")):
        (found,) = [row for row in _tables(back_us, twice=True)["violations"] if row["rule"] == "early_duplicate"]
        assert found["severity"] == severity
        assert any("clock" in why for why in found["why"]) == bool(back_us)
