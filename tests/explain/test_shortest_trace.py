"""The shortest trace of each injected fault, of each broken twin of a scenario, and of findings in recordings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from busy_log import FAULTS, busy, settings_of
from found import Found, again, config_of, found_in, recorded_config
from local_replay import LOW, Columns, Log, recorded_logs
from recorded import of_each
from scenario_runner import Story, blocks

from dispatch_audit.pipeline.contract.rules import CLIENT_RULES, RuleName
from dispatch_audit.pipeline.explain.shortest_trace import Shortest

EVENTS_MAX = 30
SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"
TWINS = sorted(SCENARIOS.glob("*_broken.txt"))
BROKEN = (
    *TWINS[::4],
    SCENARIOS / "s10_double_registration.txt",
    # The search is the same for all: the gate takes some.
    *(
        pytest.param(path, marks=pytest.mark.slow)
        for path in (*TWINS, SCENARIOS / "s11_sticky_gap.txt")
        if path not in TWINS[::4]
    ),
)
RECORDED: Mapping[str, tuple[RuleName, ...]] = {
    "delayed-4.0.8": ("replay_overtaken",),
    "double-registration-4.0.1": ("draining_stuck", "draining_mismatch"),
}


def same(finding: Mapping[str, Any], found: list[Columns]) -> bool:
    return any((row["finding_id"], row["severity"]) == (finding["finding_id"], finding["severity"]) for row in found)


def check(found: Found, finding: Columns, shortest: Shortest) -> None:
    """The rows are few, are rows of the trace, and give the finding; and the search has ended by itself."""
    assert shortest.finished
    assert 0 < shortest.rows.num_rows <= EVENTS_MAX
    rows = {row["seq"]: row for row in found.rows.to_pylist()}
    assert all(rows[row["seq"]] == row for row in shortest.rows.to_pylist())
    assert same(finding, again(shortest.rows, found))


@pytest.mark.parametrize("rule", FAULTS)
def test_a_fault_in_the_middle_of_traffic(rule: RuleName) -> None:
    fault, _ = FAULTS[rule]
    config = config_of(settings=settings_of(rule))
    found = found_in(busy(fault).rows, config)
    finding = found.of_rule(rule)
    shortest = found.shortest(finding)
    check(found, finding, shortest)
    # No row can be left out alone.
    every = range(shortest.rows.num_rows)
    for left_out in every:
        rest = shortest.rows.take([at for at in every if at != left_out])
        assert not same(finding, _given_by(rest, found))


def _given_by(rows: Any, found: Found) -> list[Columns]:
    kept = rows.to_pylist()
    if not any(row["subscription"] for row in kept):
        return []
    smaller = found_in(kept, found.events.claimed)
    return [] if smaller.refused else smaller.findings


def test_the_traffic_without_a_fault_breaks_nothing() -> None:
    assert found_in(busy(lambda log, first: None).rows, config_of()).findings == []


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_twin_of_a_scenario(path: Path) -> None:
    story = Story()
    for commands in blocks(path.read_text(encoding="utf-8")):
        list(story.block(commands))
        if story.rows:
            found = found_in(story.rows, story.config)
            for finding in found.findings:
                check(found, finding, found.shortest(finding))


@of_each(RECORDED, one_in=2)
def test_a_finding_of_a_broker(name: str) -> None:
    rows = [row for log in recorded_logs(name) for row in log]
    found = found_in(rows, recorded_config(name))
    for rule in RECORDED[name]:
        finding = found.of_rule(rule)
        check(found, finding, found.shortest(finding))


def test_every_rule_is_among_them() -> None:
    of_scenarios = {"gap_delivery"}
    of_recordings = {rule for rules in RECORDED.values() for rule in rules}
    # Facts about clients and clocks tell of many rows, and no few of them show the same.
    of_many_rows = {*CLIENT_RULES, "clocks_apart"}
    assert {*FAULTS, *of_scenarios, *of_recordings} == set(get_args(RuleName)) - of_many_rows


def test_a_search_that_reaches_its_limit_has_a_trace_that_gives_the_finding() -> None:
    found = found_in(busy(FAULTS["single_holder"][0]).rows, config_of())
    finding = found.of_rule("single_holder")
    stopped = found.shortest(finding, replays_max=20)
    assert not stopped.finished
    assert stopped.replays == 20
    assert found.shortest(finding).rows.num_rows < stopped.rows.num_rows < found.rows.num_rows
    assert same(finding, again(stopped.rows, found))


def test_the_same_rows_give_the_same_shortest_trace() -> None:
    rows = busy(FAULTS["redelivery_order"][0]).rows
    first, second = (found_in(some, config_of()) for some in (rows, list(reversed(rows))))
    finding = first.of_rule("redelivery_order")
    assert first.shortest(finding).rows == second.shortest(finding).rows


def test_rows_that_the_replay_refuses_are_not_in_it() -> None:
    log = Log()
    log.join(1)
    log.join(2)
    log.ack(7, 5)  # a consumer that never joined
    log.publish(0, LOW)
    log.dispatch(1, 0, LOW)
    found = found_in(log.rows, config_of())
    assert found.refused
    check(found, found.of_rule("ownership"), found.shortest(found.of_rule("ownership")))


def test_rows_that_were_delivered_twice_are_in_it_once() -> None:
    log = busy(FAULTS["ownership"][0])
    found = found_in([*log.rows, *log.rows], config_of())
    seqs = found.shortest(found.of_rule("ownership")).rows.column("seq").to_pylist()
    assert len(seqs) == len(set(seqs)) <= EVENTS_MAX
