"""Findings beyond a limit are counted, and what is permitted does not take the room of what is not."""

import numpy as np
from local_replay import Log, replayed

from dispatch_audit.pipeline.contract.rules import FOREIGN_ACK, OWNERSHIP, SINGLE_HOLDER
from dispatch_audit.pipeline.replay.rules.findings import CappedFindings
from dispatch_audit.pipeline.replay.state.output import FINDING
from dispatch_audit.pipeline.replay.state.records import Records
from dispatch_audit.pipeline.replay.verdicts.dispatch_findings import dispatch_findings


def findings(rule: int, permitted: int, count: int) -> Records:
    found: Records = np.zeros(count, dtype=FINDING).view(np.recarray)
    found.rule, found.permitted, found.seq = rule, permitted, np.arange(count)
    return found


def test_each_rule_has_its_room_and_so_has_what_an_exception_permits() -> None:
    kept = CappedFindings(10)
    for _ in range(3):
        kept.add(findings(SINGLE_HOLDER, 5, 7))
    kept.add(findings(SINGLE_HOLDER, 0, 4))
    kept.add(findings(OWNERSHIP, 0, 11))
    assert kept.all().size == 10 + 4 + 10
    assert kept.beyond == {(SINGLE_HOLDER, 5): 11, (OWNERSHIP, 0): 1}
    assert kept.all().seq[:10].tolist() == [*range(7), *range(3)]


def test_facts_have_less_room() -> None:
    kept = CappedFindings()
    kept.add(findings(FOREIGN_ACK, 0, 10_005))
    assert kept.beyond == {(FOREIGN_ACK, 0): 5}


def overtaking() -> Log:
    log = Log()
    log.join(1)
    for entry in range(6):
        log.publish(entry, deliver_at_ms=2_000 if entry == 0 else None)
    # Permitted while only the delayed one waits; 3 passes 2 and waits no less long than 5 passes it.
    for entry in (1, 3, 5):
        log.dispatch(1, entry)
    return log


def test_the_worst_are_kept_and_all_are_counted() -> None:
    replay = replayed(overtaking().rows)
    reported = {
        limit: next(f for f in dispatch_findings(replay.context, limit) if f.rule == "replay_overtaken")
        for limit in (0, 1)
    }
    assert reported[0].counts == reported[1].counts == {"violation": 2, "permitted": 1}
    assert [finding.severity for finding in reported[0].worst] == ["violation", "violation", "permitted"]
    # That which waited longest comes first.
    assert [finding.entry_id for finding in reported[1].worst] == [5]
