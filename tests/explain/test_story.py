"""The story of a hash: which events are in it, in which order, and who owned and held the hash at each."""

import json
from io import StringIO

from busy_log import FAULTS, busy
from found import config_of, found_in
from local_replay import HIGH, LOW, Columns, Log, one_waiting
from rich.console import Console
from rich.text import Text

from dispatch_audit.pipeline.explain.json_story import json_story
from dispatch_audit.pipeline.explain.story import Middle, Story
from dispatch_audit.pipeline.explain.text import print_story
from dispatch_audit.pipeline.report.text.layout import WHOLE_LINES

HASH_OF_LOW = 21772
STEPS_OF_MOVE = ["join", "publish", "dispatch", "join", "publish", "ack", "dispatch", "ack"]


def moved() -> Log:
    """A hash that drains when a second consumer joins."""
    log = Log()
    log.join(1)
    log.publish(0, LOW)
    log.dispatch(1, 0, LOW)
    log.publish(1, HIGH)
    log.dispatch(1, 1, HIGH)
    log.join(2, name="blue")
    log.publish(2, LOW)
    log.ack(1, 0)
    log.ack(1, 1)
    log.dispatch(2, 2, LOW)
    log.ack(2, 2)
    return log


def reported(story: Story, finding: Columns | None = None) -> list[str]:
    out = StringIO()
    print_story(story, finding, "traces/night, run 1", Console(file=out, width=WHOLE_LINES))
    return out.getvalue().splitlines()


def events_of(story: Story) -> list[str]:
    return [step.row["event"] for step in story.steps]


def test_a_story_has_the_events_of_the_hash_and_the_changes_that_moved_it() -> None:
    story = found_in(moved().rows, config_of()).story(HASH_OF_LOW, Middle())
    assert events_of(story) == STEPS_OF_MOVE
    assert {step.row["entry_id"] for step in story.steps if step.row["event"] == "publish"} == {0, 2}


def test_a_join_that_leaves_the_hash_where_it_is_is_no_part_of_it() -> None:
    log = moved()
    log.join(3)  # takes the lowest quarter
    log.join(4)  # takes a part of the upper half
    log.publish(3, LOW)
    story = found_in(log.rows, config_of()).story(HASH_OF_LOW, Middle())
    assert events_of(story) == [*STEPS_OF_MOVE, "publish"]


def test_a_line_for_each_event_and_one_for_each_change_of_the_hash() -> None:
    lines = reported(found_in(moved().rows, config_of()).story(HASH_OF_LOW, Middle()))
    events = [" ".join(line.split()) for line in lines[lines.index("") + 1 :]]
    assert events == [
        "1970-01-01 00:16:40.001 seq 2 join c1 (consumer 1)",
        "owner c1 (1); nothing pending",
        "1970-01-01 00:16:40.002 seq 3 publish 1:0, key key-2",
        "owner c1 (1); nothing pending; waiting: 1, in replay 0",
        "1970-01-01 00:16:40.003 seq 4 dispatch 1:0 to c1 (consumer 1), key key-2",
        "owner c1 (1); pending: c1 (1) 1",
        "1970-01-01 00:16:40.009 seq 10 join blue (consumer 2)",
        "owner blue (2); pending: c1 (1) 1; draining: c1 (1) -> blue (2)",
        "1970-01-01 00:16:40.010 seq 11 publish 1:2, key key-2",
        "owner blue (2); pending: c1 (1) 1; draining: c1 (1) -> blue (2); waiting: 1, in replay 0",
        "1970-01-01 00:16:40.012 seq 13 ack 1:0 by c1 (consumer 1)",
        "owner blue (2); nothing pending; waiting: 1, in replay 0",
        "1970-01-01 00:16:40.015 seq 16 dispatch 1:2 to blue (consumer 2), key key-2",
        "owner blue (2); pending: blue (2) 1",
        "1970-01-01 00:16:40.018 seq 19 ack 1:2 by blue (consumer 2)",
        "owner blue (2); nothing pending",
    ]


def test_the_event_that_completes_a_finding_is_marked_and_in_the_middle() -> None:
    found = found_in(busy(FAULTS["ownership"][0]).rows, config_of())
    finding = {"key": None, "broker": None, "accepted": None, **found.of_rule("ownership")}
    story = found.story(HASH_OF_LOW, Middle(None, finding["seq"], offending=True), 11)
    assert [step.offending for step in story.steps] == [False] * 5 + [True] + [False] * 5
    lines = reported(story, finding)
    (marked,) = [line for line in lines if line.startswith(">>")]
    assert marked.endswith("<- completes the finding")
    assert lines[0] == f"ownership: violation  {finding['finding_id']}"
    assert lines[1] == f"  what     {finding['what']}"
    assert lines[2] == f"  against  {finding['against']}"
    assert lines[3] == f"  rows     {finding['evidence'][0]}"


def test_the_owner_at_a_moment_is_in_the_first_lines() -> None:
    log = moved()
    found = found_in(log.rows, config_of())
    before, after = (reported(found.story(HASH_OF_LOW, Middle(ts_us=log.rows[row]["ts_us"])))[1] for row in (5, 9))
    assert before == "At      1970-01-01 00:16:40.005: owner c1 (1); pending: c1 (1) 1"
    assert after.startswith("At      1970-01-01 00:16:40.009: owner blue (2); pending: c1 (1) 1; draining")


def test_the_hash_of_a_key_is_the_one_of_the_selector() -> None:
    events = found_in(moved().rows, config_of()).events
    assert events.hash_of_key(LOW.decode()) == HASH_OF_LOW
    ring = found_in(moved().rows, config_of("3.0.7", {})).events
    assert ring.hash_of_key(LOW.decode()) > 65_535


def test_a_reset_is_part_of_every_story() -> None:
    log = moved()
    log.reset("seek")
    assert events_of(found_in(log.rows, config_of()).story(HASH_OF_LOW, Middle()))[-1] == "reset"


def test_a_gap_is_part_of_every_story() -> None:
    log = moved()
    lost = len(log.rows) + 1
    # Two gaps that begin with one row, of which one was delivered twice.
    log.write("gap", seq_end=lost, dropped=1, dropped_events=["ack", "dispatch"])
    log.write("gap", seq=lost, seq_end=lost + 5, dropped=2)
    log.rows.append(dict(log.rows[-1]))
    found = found_in(log.rows, config_of())
    lines = reported(found.story(HASH_OF_LOW, Middle()))
    assert [line.split("  ")[-1] for line in lines if "gap" in line] == [
        "gap: the recorder dropped 1 row (ack, dispatch) up to seq 20",
        "gap: the recorder dropped 2 rows (any event) up to seq 25",
    ]
    assert events_of(found.story(None, Middle())).count("gap") == 2


def test_settings_are_part_of_every_story() -> None:
    log = moved()
    values = [("maxUnackedMessagesPerConsumer", "30"), ("delayedDeliveryEnabled", None)]
    log.write("settings", settings=values, sources=[("maxUnackedMessagesPerConsumer", "namespace")], subscription=None)
    found = found_in(log.rows, config_of())
    (line,) = (line for line in reported(found.story(HASH_OF_LOW, Middle())) if "settings" in line)
    assert line.endswith(
        "settings: delayedDeliveryEnabled = the default, maxUnackedMessagesPerConsumer = 30 (namespace)"
    )
    assert events_of(found.story(None, Middle())).count("settings") == 1


def test_what_a_recorder_repeats_of_settings_is_not_part_of_a_story() -> None:
    log = moved()
    values = {"maxUnackedMessagesPerConsumer": "30", "dispatcherMaxReadBatchSize": "100"}
    for limit in ("30", "30", "40"):
        log.write("settings", settings=[*(values | {"maxUnackedMessagesPerConsumer": limit}).items()])
    lines = [
        line for line in reported(found_in(log.rows, config_of()).story(HASH_OF_LOW, Middle())) if "settings" in line
    ]
    assert [line.split("settings: ")[1] for line in lines] == [
        "dispatcherMaxReadBatchSize = 100, maxUnackedMessagesPerConsumer = 30",
        "maxUnackedMessagesPerConsumer = 40",
    ]


def test_what_was_pending_is_unknown_after_a_gap() -> None:
    log = moved()
    log.publish(3, LOW)
    log.dispatch(2, 3, LOW)
    log.write("gap", seq_end=len(log.rows) + 1, dropped=1, dropped_events=["ack"])
    log.now_us += 1_000_000
    log.flow(1, 1)
    lines = reported(found_in(log.rows, config_of()).story(HASH_OF_LOW, Middle()))
    assert lines[-3].strip() == "owner blue (2); pending: blue (2) 1"
    assert lines[-1].strip() == "owner blue (2); nothing pending"


def test_a_redelivery_of_everything_concerns_the_hashes_that_its_consumer_got() -> None:
    log = moved()
    log.redeliver(1)
    log.redeliver(2)
    log.join(5)
    log.redeliver(5)
    story = found_in(log.rows, config_of()).story(HASH_OF_LOW, Middle())
    assert [step.row["consumer"] for step in story.steps if step.row["event"] == "redeliver"] == [1, 2]


def test_rows_that_the_replay_refuses_take_no_part() -> None:
    log = moved()
    log.ack(9, 2)
    story = found_in(log.rows, config_of()).story(HASH_OF_LOW, Middle())
    assert events_of(story) == STEPS_OF_MOVE
    assert len(story.refused) == 2


def test_rows_of_several_recorders_are_named_by_their_recorders() -> None:
    first, second = moved(), Log(now_us=2_000_000_000)
    first.reset("transfer")
    second.join(1, name="other")
    second.publish(3, LOW)
    second.dispatch(1, 3, LOW)
    rows = [{**row, "broker": name} for name, log in (("a", first), ("b", second)) for row in log.rows]
    story = found_in(rows, config_of()).story(HASH_OF_LOW, Middle())
    lines = reported(story)
    assert any("seq 2 of a" in line and "join c1 (consumer 1 of a)" in line for line in lines)
    assert any("seq 4 of b" in line and "dispatch 1:3 to other (consumer 1 of b)" in line for line in lines)
    assert lines[-1].split() == ["owner", "other", "(1", "of", "b);", "pending:", "other", "(1", "of", "b)", "1"]


def test_of_a_wait_the_state_is_shown_that_the_row_ends_which_ends_it() -> None:
    log = one_waiting()
    log.now_us += 5_000_000
    log.leave(1)
    log.leave(2)
    found = found_in(log.rows, config_of())
    seq = found.of_rule("stalled")["seq"]
    stories = [found.story(HASH_OF_LOW, Middle(None, seq, offending=True, ends_wait=ends)) for ends in (False, True)]
    after, before = (reported(story)[1] for story in stories)
    assert after.startswith("At ")
    assert after.endswith("owner nobody; nothing pending; waiting: 1, in replay 0")
    assert before.startswith("Before ")
    assert before.endswith("owner c2 (2); nothing pending; waiting: 1, in replay 0")


def test_a_finding_that_the_rows_do_not_give_any_more_is_said() -> None:
    found = found_in(busy(FAULTS["ownership"][0]).rows, config_of())
    finding = {"key": None, "broker": None, "accepted": None, **found.of_rule("ownership"), "finding_id": "0" * 12}
    lines = reported(found.story(HASH_OF_LOW, Middle(None, finding["seq"], offending=True)), finding)
    assert any(line.startswith("Note    the rows that are there now do not give this finding") for line in lines)


def test_names_of_clients_do_not_steer_the_terminal() -> None:
    log = Log()
    log.join(1, name="\x1b[2Jred\n")
    log.publish(0, b"\x1b[31mkey")
    found = found_in(log.rows, config_of())
    story = found.story(found.events.hash_of_key("\x1b[31mkey"), Middle())
    assert all(line.isprintable() for line in reported(story))


def test_a_terminal_gets_lines_of_its_width() -> None:
    out = StringIO()
    story = found_in(moved().rows, config_of()).story(HASH_OF_LOW, Middle())
    print_story(story, None, "traces/night", Console(file=out, force_terminal=True, width=70, no_color=True))
    lines = [Text.from_ansi(line).plain for line in out.getvalue().splitlines()]
    events = lines[lines.index("") + 1 :]
    assert all(len(line) <= 70 for line in lines)
    assert len(events) > 16


def test_json_has_the_same_steps() -> None:
    story = found_in(moved().rows, config_of()).story(HASH_OF_LOW, Middle())
    written = json.loads(json_story(story, None, "1"))
    assert [event["event"] for event in written["events"]] == STEPS_OF_MOVE
    join = written["events"][3]
    assert join["state"] == {
        "owner": {"consumer": 2, "consumer_name": "blue"},
        "undecided": None,
        "holders": [{"consumer": 1, "consumer_name": "c1", "entries": 1}],
        "draining": {"from": {"consumer": 1, "consumer_name": "c1"}, "to": {"consumer": 2, "consumer_name": "blue"}},
        "waiting": 0,
        "in_replay": 0,
    }
    assert written["events"][1]["key"] == "key-2"
