"""Gates: a cause for which nothing is sent is a row of one table, and an entry behind none makes a stall a finding."""

from collections.abc import Callable
from typing import Final

import pytest
from local_replay import AUTO_SPLIT, HIGH, Log, Replay, replayed, say, send

from dispatch_audit.pipeline.replay.blocking.attribution import are_after
from dispatch_audit.pipeline.replay.blocking.stalls import gates
from dispatch_audit.pipeline.replay.blocking.stalls.gates import GATES, Gate
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Mask, Situation
from dispatch_audit.pipeline.replay.state.values import Cause

SECOND_US: Final = 1_000_000


def _causes(replay: Replay) -> list[str]:
    return [wait.cause for wait in replay.waits if wait.scope == "subscription"]


def _full_subscription(held: int) -> Replay:
    """A limit of four messages for the subscription; so many are held, and one more waits."""
    log = Log()
    say(log, maxUnackedMessagesPerSubscription=4)
    log.join(1)
    log.write("flow", consumer=1, permits=1000)
    send(log, range(held))
    log.publish(held)
    log.now_us += 3 * SECOND_US
    log.dispatch(1, held)
    return replayed(log.rows, settings={**AUTO_SPLIT, "maxUnackedMessagesPerSubscription": 4})


def _full_replay(stuck: int) -> Replay:
    """A look-ahead limit of two; so many wait for consumer 2, without permits, before one for consumer 1."""
    log = Log()
    for consumer in (1, 2):
        log.join(consumer)
    log.write("flow", consumer=1, permits=1000)
    log.write("flow", consumer=2, permits=1)
    log.publish(0)
    log.dispatch(2, 0)
    for entry in range(1, stuck + 1):
        log.publish(entry)
    log.publish(stuck + 1, HIGH)
    log.now_us += 3 * SECOND_US
    log.dispatch(1, stuck + 1, HIGH)
    return replayed(log.rows, settings={**AUTO_SPLIT, "keySharedLookAheadMsgInReplayThresholdPerSubscription": 2})


def _unowned_ahead(number: int) -> Replay:
    """Consumers with ranges that leave a gap; so many entries of the gap come before one that could be sent."""
    log = Log()
    log.join(1, ranges=[(0, 32_767)])
    log.write("flow", consumer=1, permits=1000)
    for entry in range(number):
        log.publish(entry, HIGH)
    log.publish(number)
    log.now_us += 3 * SECOND_US
    log.dispatch(1, number)
    return replayed(log.rows)


@pytest.mark.parametrize(
    ("cause", "story", "few", "many"),
    [
        (Cause.UNACKED_LIMIT_SUBSCRIPTION, _full_subscription, 1, 4),
        (Cause.LOOK_AHEAD_LIMIT, _full_replay, 1, 2),
        (Cause.NO_OWNER, _unowned_ahead, 1, 31),
    ],
)
def test_a_gate_explains_a_stall_if_it_holds_back_what_could_be_sent_and_else_not(
    cause: Cause, story: Callable[[int], Replay], few: int, many: int
) -> None:
    assert _causes(story(many)) == [cause.word]
    assert _causes(story(few)) == [Cause.UNEXPLAINED.word]


def _after_a_gate(situation: Situation) -> Mask:
    """Entries after 1:1, as after the first message of a transaction that has not ended."""
    return are_after(situation.state, situation.free.slot, (1, 1))


def _two_wait(first: int) -> Replay:
    log = Log()
    log.join(1)
    log.write("flow", consumer=1, permits=1000)
    log.publish(first)
    log.publish(first + 1)
    log.now_us += 3 * SECOND_US
    log.dispatch(1, first)
    return replayed(log.rows)


def test_a_new_cause_is_one_row_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    added = Gate(Cause.OVERDUE, "9.3", "what comes after a transaction", "a transaction is open", _after_a_gate)
    assert _causes(_two_wait(2)) == [Cause.UNEXPLAINED.word]
    monkeypatch.setattr(gates, "GATES", (*GATES, added))
    explained = _two_wait(2)
    assert _causes(explained) == [Cause.OVERDUE.word]
    assert not explained.weighed
    # The first of these entries is behind no gate.
    assert _causes(_two_wait(1)) == [Cause.UNEXPLAINED.word]


def test_each_gate_has_words_for_the_report_and_a_section_of_the_contract() -> None:
    assert all(gate.because and gate.holds and gate.contract for gate in GATES)
    assert len({gate.cause for gate in GATES}) == len(GATES)


def test_a_stall_has_a_cause_if_gates_together_hold_back_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def before(situation: Situation) -> Mask:
        return ~_after_a_gate(situation)

    rows = (
        Gate(Cause.OVERDUE, "9.3", "-", "-", _after_a_gate),
        Gate(Cause.NACK_DELAY, "9.3", "-", "-", before),
    )
    monkeypatch.setattr(gates, "GATES", rows)
    # The oldest entry names the cause.
    assert _causes(_two_wait(1)) == [Cause.NACK_DELAY.word]
    monkeypatch.setattr(gates, "GATES", rows[1:])
    assert _causes(_two_wait(1)) == [Cause.UNEXPLAINED.word]
