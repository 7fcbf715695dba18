"""A client that gives an entry back whenever it gets it is sent it a fourth time."""

import pytest
from local_replay import LOW, Log, replayed


@pytest.mark.parametrize(("returns", "broken"), [(2, []), (3, ["sent_too_often"])])
def test_an_entry_that_comes_back_three_times_is_sent_too_often(returns: int, broken: list[str]) -> None:
    log = Log(step_us=20_000)
    log.join(1)
    log.publish(0, LOW)
    for count in range(returns):
        log.dispatch(1, 0, LOW, count=count)
        log.redeliver(1, 0)
    log.dispatch(1, 0, LOW, count=returns)

    assert [finding.rule for finding in replayed(log.rows).findings] == broken
