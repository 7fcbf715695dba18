"""The price of a membership change does not depend on how many changes lie in the same batch of rows."""

import pytest
from local_replay import Log, replayed

from dispatch_audit.pipeline.replay.timeline.brackets import Bracket


def looks_at_brackets(consumers: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often the bounds of a change are asked for while so many consumers join and leave, one after the other."""
    asked = 0
    bounds: property = vars(Bracket)["bounds"]

    def counted(bracket: Bracket) -> tuple[int, int]:
        nonlocal asked
        asked += 1
        found: tuple[int, int] = bounds.__get__(bracket)
        return found

    log = Log()
    for consumer in range(consumers):
        log.join(consumer)
        log.leave(consumer)
    with monkeypatch.context() as patched:
        patched.setattr(Bracket, "bounds", property(counted))
        assert len(replayed(log.rows).changes) == 2 * consumers
    return asked


def test_twice_as_many_changes_are_looked_at_twice_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (looks_at_brackets(consumers, monkeypatch) for consumers in (100, 200))
    assert many < 2.2 * few
