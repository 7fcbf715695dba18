"""Each chart from rows whose marks can be counted by hand; Altair holds it against the schema of Vega-Lite."""

from collections.abc import Callable
from typing import Any

import altair as alt
import pandas as pd
import pytest
from chart_rows import ASSIGNMENTS, BLOCKING, CAPACITY, CONSUMERS, DRAINING, HOT_KEYS, Row, at, finding

from dispatch_audit.pipeline.report.charts import theme
from dispatch_audit.pipeline.report.charts.balance import hashes_against_traffic, unbalanced
from dispatch_audit.pipeline.report.charts.blockers import ranked_pairs, who_blocked_whom
from dispatch_audit.pipeline.report.charts.chains import blocking_chains, chains_of
from dispatch_audit.pipeline.report.charts.churn import CHANGES_MAX, assignment_churn, changes_of
from dispatch_audit.pipeline.report.charts.dispatchers import over_time
from dispatch_audit.pipeline.report.charts.draining import SPANS_MAX, draining_spans, longest_spans
from dispatch_audit.pipeline.report.charts.hash_timeline import earlier_event, hash_story, hash_timeline
from dispatch_audit.pipeline.report.charts.hot_keys import hottest, traffic_of_keys
from dispatch_audit.pipeline.report.charts.look_ahead import SAMPLES_MAX, forecast, fullest, replay_against_limit
from dispatch_audit.pipeline.report.charts.ownership import LANES_MAX, largest_owners, owned_shares, ownership_over_time
from dispatch_audit.pipeline.report.charts.ownership import SPANS_MAX as OWNED_MAX
from dispatch_audit.pipeline.report.charts.trend import trend_of_findings, trend_of_waiting
from dispatch_audit.pipeline.report.charts.waiting import waiting_by_cause, waiting_over_time

END = at(30)
RUNS = [
    {"label": "1", "violation": 2, "known_bug": 0, "not_provable": 1, "message_seconds": 5.0, "cause": "draining"},
    {"label": "2", "violation": 0, "known_bug": 0, "not_provable": 0, "message_seconds": 0.0, "cause": None},
]
FINDING = finding(1, "order-7")
STEPS = [
    {"lane": "as given", "at": 0.0, "value": 3.0, "given": None, "stall": 0.5},
    {"lane": "as given", "at": 1.0, "value": 3.0, "given": None, "stall": None},
    {"lane": "no limit", "at": 0.0, "value": 3.0, "given": 3.0, "stall": None},
    {"lane": "no limit", "at": 1.0, "value": None, "given": 3.0, "stall": None},
]
CHARTS: dict[str, Callable[[Callable[[list[Row]], Any]], alt.TopLevelMixin]] = {
    "waiting": lambda of: waiting_over_time(of(BLOCKING), END),
    "blockers": lambda of: who_blocked_whom(of(BLOCKING)),
    "chains": lambda of: blocking_chains(of(BLOCKING)),
    "ownership": lambda of: ownership_over_time(of(ASSIGNMENTS), END),
    "draining": lambda of: draining_spans(of(DRAINING), at(0), END),
    "churn": lambda of: assignment_churn(of(ASSIGNMENTS), of(DRAINING), END),
    "look_ahead": lambda of: replay_against_limit(of(CAPACITY)),
    "hot_keys": lambda of: traffic_of_keys(of(HOT_KEYS)),
    "balance": lambda of: hashes_against_traffic(of(CONSUMERS), END),
    "trend_of_findings": lambda of: trend_of_findings(of(RUNS)),
    "trend_of_waiting": lambda of: trend_of_waiting(of(RUNS)),
    "dispatchers": lambda of: over_time(of(STEPS), "entries", "entries in the replay queue"),
    "timeline": lambda of: hash_timeline(of(hash_story(FINDING, of(ASSIGNMENTS), of(DRAINING[:2])))),
}


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_valid_vega_lite(name: str) -> None:
    chart = CHARTS[name](list)
    assert alt.Chart.from_dict(chart.to_dict()).to_dict()["$schema"].endswith(f"{alt.SCHEMA_VERSION}.json")


@pytest.mark.parametrize("name", CHARTS)
def test_a_frame_of_pandas_gives_the_same_chart_as_rows(name: str) -> None:
    """A frame has NaN in the place of NULL, and floats for integers then."""
    assert CHARTS[name](pd.DataFrame).to_dict() == CHARTS[name](list).to_dict()


@pytest.mark.parametrize("name", sorted(CHARTS.keys() - {"timeline"}))
def test_a_chart_of_no_rows_can_be_made(name: str) -> None:
    def empty(_: list[Row]) -> list[Row]:
        return []

    assert CHARTS[name](empty).to_dict()


def test_waiting_adds_up_to_the_message_seconds_of_the_widest_scope() -> None:
    lanes: dict[str, float] = {}
    for row in waiting_by_cause(BLOCKING, END):
        # From 5 to 30 s in 160 parts.
        lanes[row["lane"]] = lanes.get(row["lane"], 0.0) + row["waiting"] * 25 / 160
    assert lanes == pytest.approx(
        {
            "look_ahead_limit: 400.0 message-seconds": 400.0,
            "no_permits: 90.0 message-seconds": 90.0,
            "draining: 14.0 message-seconds": 14.0,
        },
        rel=1e-3,
    )


def test_pairs_are_ranked_by_cost_and_count_each_cause_in_one_scope() -> None:
    reported = [(p["blocker"], p["waiter"], p["cause"], p["message_seconds"]) for p in ranked_pairs(BLOCKING)]
    assert reported == [
        ("red #1", "all consumers", "look_ahead_limit", 400.0),
        ("red #1", "red #1", "no_permits", 90.0),
        ("red #1", "blue #2", "draining", 8.0),
        ("blue #2", "green #3", "draining", 6.0),
    ]


def test_a_chain_leads_from_who_waits_to_why_the_last_one_is_stuck() -> None:
    longest = chains_of(BLOCKING)[0]
    assert [(link["consumer"], link["blocking_consumer"], link["cause"]) for link in longest] == [
        (3, 2, "draining"),
        (2, 1, "draining"),
        (1, 1, "no_permits"),
    ]


def test_intervals_that_do_not_overlap_are_no_chain() -> None:
    later = [{**row, "from_ts_us": at(40), "to_ts_us": at(50)} if row["consumer"] == 3 else row for row in BLOCKING]
    assert all(link["consumer"] != 3 for chain in chains_of(later) for link in chain)


def test_consumers_that_wait_for_each_other_end_the_chain() -> None:
    circle = [
        {**BLOCKING[4], "consumer": 1, "blocking_consumer": 2, "from_ts_us": at(0), "to_ts_us": at(9)},
        {**BLOCKING[4], "consumer": 2, "blocking_consumer": 1, "from_ts_us": at(0), "to_ts_us": at(9)},
    ]
    assert [len(chain) for chain in chains_of(circle)] == [2, 2]


def test_shares_of_the_hash_space_fill_it_at_every_time() -> None:
    spans, left_out = owned_shares(ASSIGNMENTS, END)
    found = [(r["consumer"], (r["from"] - at(0) / 1e3) / 1e3, (r["to"] - at(0) / 1e3) / 1e3, r["share"]) for r in spans]
    assert sorted(found) == [
        ("blue #2", 10.0, 20.0, 0.5),
        ("blue #2", 20.0, 30.0, 0.25),
        ("green #3", 20.0, 30.0, 0.25),
        ("red #1", 0.0, 10.0, 1.0),
        ("red #1", 10.0, 30.0, 0.5),
    ]
    assert left_out == 0


def test_many_assignments_are_drawn_with_a_bounded_number_of_spans() -> None:
    def owned(epoch: int, consumer: int) -> Row:
        bounds = (consumer * 10, consumer * 10 + (epoch + consumer) % 10)
        times = {"from_ts_us": at(epoch), "to_ts_us": at(epoch + 1)}
        return {**ASSIGNMENTS[0], "consumer": consumer, "range_start": bounds[0], "range_end": bounds[1], **times}

    rows = [owned(epoch, consumer) for epoch in range(400) for consumer in range(20)]
    spans, left_out = owned_shares(rows)
    assert len(spans) <= OWNED_MAX
    assert left_out == 400 - OWNED_MAX // 20


def test_fifty_changes_give_each_consumer_one_lane_in_the_order_of_their_first_shares() -> None:
    def owned(epoch: int, consumer: int) -> Row:
        times = {"from_ts_us": at(epoch), "to_ts_us": at(epoch + 1)}
        bounds = {"range_start": 40 * consumer, "range_end": 40 * consumer + epoch % 3 + consumer}
        return {**ASSIGNMENTS[0], "consumer": consumer, "consumer_name": f"c{consumer}", **bounds, **times}

    rows = [owned(epoch, consumer) for epoch in range(50) for consumer in range(epoch, epoch + 4)]
    spans, _ = owned_shares(rows)
    lanes = largest_owners(spans)
    assert len(lanes) == LANES_MAX
    # Those with larger numbers owned more, but for the last of 53, which came in the last second.
    assert lanes == [f"c{number} #{number}" for number in range(52 - LANES_MAX, 52)]
    chart = ownership_over_time(rows).to_dict()
    (drawn,) = chart["datasets"].values()
    assert chart["height"] == {"step": 20}
    assert {row["consumer"] for row in drawn} == set(lanes)


def test_changes_count_the_hashes_that_drained() -> None:
    found = [(c["change"], c["moved"], c["share"], c["drained"]) for c in changes_of(ASSIGNMENTS, DRAINING)]
    assert found == [("join red", 100, 1.0, 0), ("join blue", 50, 0.5, 2), ("join green", 25, 0.25, 1)]


def test_spans_are_as_long_as_they_drained_or_to_the_end() -> None:
    found = [(s["hash"], s["seconds"], s["ended_by"]) for s in longest_spans(DRAINING, END)]
    assert found == [(80, 10.0, "still open"), (60, 4.0, "ack"), (70, 2.0, "ack")]


def marks_of(chart: alt.TopLevelMixin) -> int:
    return max(len(rows) for rows in chart.to_dict()["datasets"].values())


def test_many_rows_are_drawn_with_a_bounded_number_of_marks() -> None:
    spans = [{**DRAINING[0], "sticky_hash": number} for number in range(5_000)]
    assert marks_of(draining_spans(spans)) == SPANS_MAX
    changes = [{**ASSIGNMENTS[0], "from_seq": number, "from_ts_us": at(number)} for number in range(5_000)]
    assert marks_of(assignment_churn(changes, [])) == CHANGES_MAX
    samples = [{**CAPACITY[0], "to_ts_us": at(number), "replay_size": number} for number in range(5_000)]
    assert marks_of(replay_against_limit(samples)) <= SAMPLES_MAX


def test_the_sample_nearest_to_the_limit_and_the_forecast() -> None:
    full = fullest(CAPACITY)
    ahead = forecast(CAPACITY)
    assert full is not None
    assert (full["replay_size"], full["to_ts_us"]) == (100, at(15))
    assert ahead is not None
    assert ahead["seconds_left"] == 12.5


def test_a_consumer_of_a_short_time_is_held_against_the_whole_time() -> None:
    found = {row["label"]: row["hashes"] for row in unbalanced(CONSUMERS, END)}
    assert found == pytest.approx({"red #1": 0.7, "blue #2": 0.4 * 20 / 30, "green #3": 0.25 * 10 / 30})


def test_keys_without_dispatches_are_not_hot() -> None:
    assert [row["dispatched"] for row in hottest([*HOT_KEYS, {**HOT_KEYS[0], "dispatched": 0}])] == [
        100,
        99,
        98,
        97,
        96,
    ]


def test_the_story_of_a_hash_names_who_held_it_who_joined_and_the_dispatch_at_issue() -> None:
    story = hash_story(FINDING, ASSIGNMENTS[:3], DRAINING[:1])
    reported = {(row["what"], row["lane"], row["from"], row["to"]) for row in story}
    # The events are 201 apart, so 24 more on both sides are in the window.
    assert reported == {
        ("owns", "red #1", 876, 1_000),
        ("owns", "red #1", 1_000, 1_125),
        ("owns", "blue #2", 1_000, 1_125),
        ("change", "blue #2", 1_000, 1_000),
        ("drains", "red #1", 1_000, 1_125),
        ("holds", "red #1", 900, 1_101),
        ("event", "red #1", 900, 900),
        ("finding", "blue #2", 1_101, 1_101),
    }


def test_an_overtaken_entry_waits_and_is_held_by_nobody() -> None:
    overtaken = {**FINDING, "rule": "replay_overtaken", "other_consumer": None, "evidence": ["seq 900: 7:1 published"]}
    story = hash_story(overtaken, [])
    reported = [(row["what"], row["lane"], row["from"], row["to"]) for row in story]
    assert reported == [
        ("waits", "waiting", 900, 1_101),
        ("event", "waiting", 900, 900),
        ("finding", "blue #2", 1_101, 1_101),
    ]


def test_an_event_of_another_recorder_has_no_place_among_the_seqs_of_the_finding() -> None:
    other = {**FINDING, "broker": "b", "evidence": ["seq 900 of a: 7:1 published", "seq 950 of b: 7:1 dispatched"]}
    assert earlier_event(other) == (950, "7:1 dispatched")
    assert earlier_event({**other, "evidence": other["evidence"][:1]}) is None


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_theme_is_valid_and_becomes_that_of_a_notebook(mode: theme.Mode) -> None:
    try:
        theme.use(mode)
        made = who_blocked_whom(BLOCKING).to_dict()
        assert made["config"]["range"]["category"] == theme.config(mode)["range"]["category"]
    finally:
        alt.theme.enable("default")
