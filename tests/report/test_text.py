import re
from dataclasses import replace
from io import StringIO

import pytest
from report_rows import (
    BLOCK,
    BOTH,
    BROKEN,
    CLEAN,
    FINDING,
    HELD_UP,
    HOSTILE,
    HOT,
    INCOMPLETE,
    KEYLESS,
    MIXED,
    OF_HOSTILES,
    ONLY_CLEAN,
    TABLES,
    UNPROVEN,
    WAIT,
    WITH_UNUSABLE,
    counts,
    group,
)
from rich.console import Console

from dispatch_audit.pipeline.replay.state.values import Cause
from dispatch_audit.pipeline.report.answers import answers_on, answers_on_all
from dispatch_audit.pipeline.report.summary import Finding, RunSummary, Summary
from dispatch_audit.pipeline.report.text.layout import WHOLE_LINES
from dispatch_audit.pipeline.report.text.next_step import STEPS
from dispatch_audit.pipeline.report.text.report import ReportOptions, print_report
from dispatch_audit.pipeline.windows.window import Window

# On a terminal of this height the whole report is in sight.
LINES_MAX = 60


def text_of(summary: Summary, width: int = WHOLE_LINES, shown: ReportOptions | None = None) -> str:
    stream = StringIO()
    print_report(summary, Console(file=stream, width=width), shown or ReportOptions())
    return stream.getvalue()


def test_what_was_left_out_of_the_waits_is_said() -> None:
    assert "left out" not in text_of(BOTH)
    reported = text_of(replace(BOTH, runs=(replace(BROKEN, intervals_left_out=1_200),)))
    assert "  1,200 intervals of lower cost left out (raise blocking.intervals_max to keep more)\n" in reported


def test_a_broken_and_a_clean_trace() -> None:
    assert (
        text_of(BOTH)
        == """\
Tables  /tmp/report: 2 tables (-v names them)

Trace   traces/night
Read    12,000 events, 12 quarantined (broken_json 10, missing_field 2); completeness 99.9 %
Time    2026-01-01 00:00:00.000 to 2026-01-01 00:01:30.000 UTC (90.0 s)
Broker  Pulsar 4.0.8, by the rules of profile pulsar-4.0.7
Run     0123456789abcdef, on Spark 4.2.0
Topic   persistent://shop/eu/orders-partition-0, subscription workers
        75 % of 12,000 rows judged (2,988 from before its state was known, 12 refused)

Batches; the broker routes a batch by the key of its first message, so it may keep no order of the others
  shop-1: 4 of 10 batches mix keys; the keys in 2 batches are not recorded; batch by key, or not at all

Hot keys
  key order-7 on hash 4711 with 1 other key: 1,980 dispatches (40 %); up to 37 entries pending at once; its \
hash waited 5.1 s
  a key that is not recorded on hash 56505: at least 9 dispatches; its hash waited 0 ms

Blocking: what cost most; a message-second is a message that waited for a second
  message-seconds  intervals  longest  cause     held up by
          1,250.5        113    2.5 s  draining  red (consumer 1)
  worst    hash 4711 moved to blue (consumer 2), but red (consumer 1) still held 2 of its entries; from \
2026-01-01 00:00:01.000 for 2.5 s, ended by ack, oldest unacknowledged 7:118
  also     no_permits 0.2 message-seconds

The worst incidents, 2 of 16 findings (--findings N shows N incidents)
  violation  single_holder: hash 4711, key order-7
  what     entry 7:120 of hash 4711 went to blue (consumer 2)
  against  red (consumer 1) still held 7:118
  rows     seq 10: 7:118 dispatched to red (consumer 1)
           seq 20: 7:120 dispatched to blue (consumer 2)
  more     dispatch-audit explain /tmp/report --violation 3f2a9c04d1b7

  known bug (F10)  early_duplicate: hash 17
  what     entry 7:130 was sent twice
  rows     seq 31: 7:130 dispatched to blue (consumer 2)
  more     dispatch-audit explain /tmp/report --violation 90be55a1c2d3

Rules   early_duplicate: 1 matches a known bug; 3,000 checked
        single_holder: 13 violations, 2 permitted; 3,000 checked
        1 rule found nothing (-v names them)
Next    see how the worst finding came about, event by event: dispatch-audit explain /tmp/report --violation \
3f2a9c04d1b7
ORDER     BROKEN  traces/night: entry 7:120 of hash 4711 went to blue (consumer 2) (key order-7), although \
red (consumer 1) still held 7:118; 13 violations of single_holder, and 1 finding of early_duplicate matches a known bug
PROGRESS  FLOWING: whenever entries waited, some were sent within 1.0 s

Trace   traces/day
Read    3,000 events, 0 quarantined; completeness 100 %
Broker  by the rules of profile pulsar-4.2.4
Run     fedcba9876543210

Rules   2 rules found nothing (-v names them)
Next    nothing to do: entries waited briefly or not at all
ORDER     KEPT  traces/day: no rule about order was broken in 700 dispatches
PROGRESS  FLOWING: whenever entries waited, some were sent within 1.0 s

Traces  BROKEN   FLOWING  traces/night
        KEPT     FLOWING  traces/day
ORDER     BROKEN  all 2 traces: 1 of 2 traces
PROGRESS  FLOWING: 2 of 2 traces
"""
    )


def test_one_trace_has_each_answer_once() -> None:
    text = text_of(ONLY_CLEAN)
    assert (text.count("KEPT"), text.count("FLOWING")) == (1, 1)


def lines_of(run: RunSummary) -> list[str]:
    return text_of(Summary("/tmp/report", TABLES, (run,))).splitlines()


def test_who_held_up_a_subscription_and_for_how_long_is_an_answer_of_its_own() -> None:
    lines = lines_of(HELD_UP)
    assert lines[-2:] == [
        "ORDER     KEPT  traces/hung: no rule about order was broken in 700 dispatches",
        "PROGRESS  HELD UP for 7.3 s by red (consumer 1) (draining): nothing was sent to any consumer although entries "
        "waited",
    ]
    assert "Next    look at why red (consumer 1) took so long to acknowledge entry 7:118" in "\n".join(lines)


def test_what_was_not_checked_is_not_kept_and_the_next_step_says_what_is_missing() -> None:
    lines = lines_of(UNPROVEN)
    assert lines[-2:] == [
        "ORDER     NOT PROVABLE  traces/keys: no rule about order could be checked, because the trace does not show "
        "the keys of the entries and what was published",
        "PROGRESS  NOT PROVABLE: it is not known which entries waited, because the trace does not show the keys of the "
        "entries and what was published",
    ]
    assert (
        "Next    record publishes or dispatches with their keys, and publishes: this trace does not show the keys of "
        "the entries and what was published"
    ) in lines


def test_one_subscription_of_several_may_be_the_one_that_is_not_provable() -> None:
    (doubtful,) = UNPROVEN.subscriptions
    run = replace(UNPROVEN, subscriptions=(*CLEAN.subscriptions, doubtful))
    assert lines_of(run)[-2].endswith("and what was published, in 1 of 2 subscriptions")


def test_only_the_dispatches_that_could_be_judged_are_said_to_keep_order() -> None:
    (some,) = CLEAN.subscriptions
    *_, line, _ = lines_of(replace(CLEAN, subscriptions=(replace(some, dispatches_judged=64),)))
    assert line.endswith(": no rule about order was broken in the 64 of 700 dispatches that could be judged")


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("no_owner", "no consumer was connected"),
        ("dispatch_rate_limit", "a dispatch rate limit was reached"),
        ("delayed_delivery", "entries waited for the time that their producer had asked for"),
    ],
)
def test_an_expected_wait_is_said_and_no_alarm(cause: str, said: str) -> None:
    (some,) = CLEAN.subscriptions
    waited = replace(some, expected_wait_seconds=60.0, expected_wait_cause=cause)
    line = lines_of(replace(CLEAN, subscriptions=(waited,)))[-1]
    before = "PROGRESS  FLOWING: whenever entries waited, some were sent within 1.0 s"
    assert line == f"{before}, but for up to 60.0 s in which {said}"


def test_other_findings_about_progress_stand_beside_the_answer() -> None:
    line = lines_of(replace(CLEAN, rules=(counts("unacked_limit", 9, violation=3),)))[-1]
    assert line.endswith("within 1.0 s; 3 violations of unacked_limit")


@pytest.mark.parametrize(
    ("rule", "severity", "said", "tone"),
    [
        ("unacked_limit", "violation", "1 violation of unacked_limit", "bad"),
        ("draining_mismatch", "violation", "1 violation of draining_mismatch", "bad"),
        ("settings_mismatch", "not_provable", "1 finding of settings_mismatch is not provable", "careful"),
        ("impossible_counter", "info", "the broker reports 1 counter that cannot be (impossible_counter)", "careful"),
    ],
)
def test_what_no_word_of_the_answers_says_makes_no_green_headline(
    rule: str, severity: str, said: str, tone: str
) -> None:
    run = replace(CLEAN, rules=(counts(rule, 5, **{severity: 1}),))
    _, progress = answers_on(run)
    assert (progress.word, progress.tone) == ("flowing", tone)
    assert progress.text.endswith(f"; {said}")
    _, of_all = answers_on_all(replace(BOTH, runs=(CLEAN, run)))
    assert of_all.tone == tone


def test_counters_that_cannot_be_are_something_to_look_at() -> None:
    run = replace(CLEAN, rules=(counts("impossible_counter", 5, info=1),), blocks=())
    assert "the rows of rule impossible_counter" in next_of(run)


def test_a_run_of_an_older_version_has_a_verdict_only() -> None:
    old = replace(BROKEN, order=None, progress=None, subscriptions=())
    assert lines_of(old)[-1].startswith(
        "VERDICT  VIOLATION  traces/night: the worst of what was found; an older version"
    )


def test_messages_without_a_key_are_a_fact_with_numbers() -> None:
    for profile, routing in (("pulsar-4.0.7", "they are spread over the consumers"), ("pulsar-3.0", "to one consumer")):
        text = text_of(Summary("/tmp/report", TABLES, (replace(CLEAN, profile=profile, keyless_producers=(KEYLESS,)),)))
        assert "  shop-2: 10 of 40 entries without a key (25 %)\n" in text
        assert routing in text
    assert "without a key" not in text_of(BOTH)


def test_rules_with_nothing_to_check_are_told_from_those_that_found_nothing() -> None:
    rules = (counts("gap_delivery", 0), counts("ownership", 700), counts("stalled", 700))
    summary = Summary("/tmp/report", TABLES, (replace(ONLY_CLEAN.runs[0], rules=rules),))
    assert "\nRules   2 rules found nothing, 1 rule had nothing to check (-v names them)\n" in text_of(summary)
    named = text_of(summary, shown=ReportOptions(verbose=True))
    assert "\nNothing found by     ownership, stalled\nNothing to check for gap_delivery\n" in named


def test_a_verbose_report_has_the_table_of_the_rules_and_the_names_of_the_tables() -> None:
    text = text_of(BOTH, shown=ReportOptions(verbose=True))
    assert "Tables  /tmp/report: runs, violations\n" in text
    assert "single_holder      3,000         13      0         0          2     0\n" in text
    assert "single_holder      3,000" not in text_of(BOTH)


def findings_of(rule: str, number: int) -> list[Finding]:
    """Findings that have nothing in common but their rule: each entry went to another consumer."""
    return [replace(FINDING, rule=rule, consumer=at, what=f"{rule} number {at}", against=None) for at in range(number)]


@pytest.mark.parametrize(
    ("incidents_max", "shown"),
    [
        (0, []),
        (1, ["single_holder number 0"]),
        (4, ["single_holder number 0", "single_holder number 1", "early_duplicate number 0", "ownership number 0"]),
    ],
)
def test_the_worst_of_each_rule_comes_before_the_second_of_any(incidents_max: int, shown: list[str]) -> None:
    found = findings_of("single_holder", 3) + findings_of("early_duplicate", 1) + findings_of("ownership", 2)
    run = replace(BROKEN, findings=tuple(found))
    text = text_of(Summary("/tmp/report", TABLES, (run,)), shown=ReportOptions(incidents_max))
    of_incidents = [line for line in text.splitlines() if line.startswith("  what     ")]
    assert [line.removeprefix("  what     ") for line in of_incidents if " number " in line] == shown


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_the_width_and_sentences_go_on_in_their_column(width: int) -> None:
    whole, wrapped = text_of(BOTH), text_of(BOTH, width)
    # Commands are copied, and the table of the costliest blocks has its columns.
    long = [line for line in wrapped.splitlines() if len(line) > width]
    assert all("dispatch-audit explain" in line or line.startswith("  message-s") or "113" in line for line in long)
    assert wrapped.split() == whole.split()
    assert "  what     entry 7:120 of hash" in wrapped
    assert all(line == line.rstrip() for line in wrapped.splitlines())


def test_without_a_width_no_sentence_is_broken() -> None:
    assert f"  worst    {WAIT.explanation}; from 2026-01-01 00:00:01.000 for 2.5 s, ended by ack" in text_of(BOTH)


@pytest.mark.parametrize("summary", [BOTH, ONLY_CLEAN])
def test_both_answers_and_the_next_step_are_on_the_last_24_lines(summary: Summary) -> None:
    *_, order, progress = lines = text_of(summary, 80).splitlines()
    assert (order.split()[0], progress.split()[0]) == ("ORDER", "PROGRESS")
    assert any(line.startswith("Next ") for line in lines[-24:])


def test_of_many_traces_the_worst_are_named_above_the_answers() -> None:
    clean = [replace(CLEAN, inputs=(f"traces/{number}",)) for number in range(40)]
    *_, first, second = lines = text_of(replace(BOTH, runs=(*clean, BROKEN))).splitlines()
    assert (first, second) == ("ORDER     BROKEN  all 41 traces: 1 of 41 traces", "PROGRESS  FLOWING: 41 of 41 traces")
    begin = lines.index("Traces  BROKEN   FLOWING  traces/night")
    assert lines[-3] == "        and 29 more traces, none of them worse"
    assert len(lines) - begin <= 24


def test_names_of_clients_do_not_steer_the_terminal() -> None:
    finding = replace(FINDING, key="\x1b]0;owned\x07[bold]", what="[red]\x1b[2J")
    text = text_of(Summary("/tmp/report", TABLES, (replace(BROKEN, findings=(finding,)),)))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "key \N{REPLACEMENT CHARACTER}]0;owned\N{REPLACEMENT CHARACTER}[bold]" in text
    assert "[red]\N{REPLACEMENT CHARACTER}[2J" in text


def test_no_name_of_any_client_steers_the_terminal() -> None:
    (run,) = OF_HOSTILES.runs
    block = replace(BLOCK, topic=HOSTILE, subscription=HOSTILE, consumer_name=HOSTILE)
    # The names of two topics, each in a line of the legend.
    groups = (*run.groups, replace(run.groups[0], topic="other"))
    summary = replace(OF_HOSTILES, target=HOSTILE, runs=(replace(run, groups=groups, blocks=(block, block)),))
    text = text_of(replace(summary, runs=(*summary.runs, replace(summary.runs[0], verdict="clean", refused={}))))
    assert {character for character in text if not character.isprintable()} == {"\n"}


def with_worst(**changed: object) -> Summary:
    wait = replace(WAIT, **changed)  # type: ignore[arg-type]  # passed on as given
    return Summary("/tmp/report", TABLES, (replace(BROKEN, blocks=(replace(BLOCK, worst=wait),)),))


def test_a_wait_that_goes_on_says_so() -> None:
    text = text_of(with_worst(ended_by=None, root_positions=("1:1", "1:2", "1:3", "1:4")))
    assert "for 2.5 s, still open at the end, oldest unacknowledged 1:1, 1:2, 1:3 and 1 more\n" in text


def test_permitted_findings_and_facts_are_shown_on_request() -> None:
    findings = tuple(replace(FINDING, severity=severity) for severity in ("permitted", "info"))
    run = replace(BROKEN, verdict="clean", findings=findings)
    assert "The worst incident" not in text_of(Summary("/tmp/report", TABLES, (run,)))
    asked = text_of(Summary("/tmp/report", TABLES, (run,)), shown=ReportOptions(incidents_max=9))
    assert ("  permitted  single_holder" in asked, "  info  single_holder" in asked) == (True, True)


def many_topics(number: int) -> RunSummary:
    """A run over many partitions in which every list of a report is full, and each line is about another partition."""
    topics = iter(f"persistent://shop/eu/orders-partition-{at}" for at in range(number))
    rules = tuple(counts(rule, 3_000, violation=7) for rule in ("early_duplicate", "ownership", "single_holder"))
    findings = [finding for rule in rules for finding in findings_of(rule.rule, 7)]
    run = replace(
        BROKEN,
        rules=rules,
        findings=tuple(replace(finding, topic=next(topics)) for finding in findings),
        incomplete=tuple(replace(INCOMPLETE, topic=next(topics)) for _ in range(5)),
        blocks=tuple(replace(BLOCK, topic=next(topics)) for _ in range(5)),
        hot_keys=tuple(replace(HOT, topic=next(topics)) for _ in range(3)),
        mixed_producers=tuple(replace(MIXED, topic=next(topics)) for _ in range(5)),
    )
    groups = (replace(group(rules[0]), topic=f"persistent://shop/eu/orders-partition-{at}") for at in range(number))
    return replace(run, groups=tuple(groups))


def test_a_run_with_many_topics_fits_on_a_page() -> None:
    text = text_of(Summary("/tmp/report", TABLES, (many_topics(1_000),)))
    assert len(text.splitlines()) <= LINES_MAX
    assert "Topics  1,000 topic partitions, subscription workers\n" in text


def test_the_name_of_a_topic_is_written_once() -> None:
    named = many_topics(1_000)
    often, twice = "persistent://shop/eu/orders-partition-7", "persistent://shop/eu/orders-partition-8"
    run = replace(
        named,
        blocks=tuple(replace(block, topic=often) for block in named.blocks),
        hot_keys=tuple(replace(key, topic=twice) for key in named.hot_keys),
    )
    text = text_of(Summary("/tmp/report", TABLES, (run,)))
    assert f"  T1    {often}\n  T2    {twice}\n" in text
    assert (text.count(f"{often}\n"), text.count("red (consumer 1), T1\n"), text.count(" (T2)\n")) == (1, 5, 3)
    topics = re.findall(r"persistent://[^\s,)]+", text)
    assert len(topics) == len(set(topics))
    assert len(text.splitlines()) <= LINES_MAX


def test_subscriptions_of_one_topic_are_distinguished() -> None:
    other = replace(BLOCK, subscription="audit")
    groups = (group(counts("ownership", 1)), replace(group(counts("ownership", 1)), subscription="audit"))
    run = replace(BROKEN, groups=groups, blocks=(BLOCK, other))
    text = text_of(Summary("/tmp/report", TABLES, (run,)))
    assert "Topic   persistent://shop/eu/orders-partition-0, subscriptions audit, workers\n" in text
    assert "draining  red (consumer 1), workers\n" in text
    assert "draining  red (consumer 1), audit\n" in text


def next_of(run: RunSummary) -> str:
    text = text_of(Summary("my tables", TABLES, (run,)))
    return next(line for line in text.splitlines() if line.startswith("Next    "))


def test_the_next_step_after_a_finding_is_to_explain_it() -> None:
    assert next_of(BROKEN).endswith("event by event: dispatch-audit explain 'my tables' --violation 3f2a9c04d1b7")


def test_the_next_step_after_a_contradicted_claim_is_to_correct_it() -> None:
    claim = replace(BROKEN.findings[0], rule="settings_mismatch", severity="not_provable")
    unproven = replace(BROKEN.findings[0], severity="not_provable")
    run = replace(BROKEN, verdict="not_provable", findings=(unproven, claim))
    assert "correct it in trace.json or record rows `settings`" in next_of(run)
    # What is proven is of more interest.
    assert "correct it" not in next_of(replace(BROKEN, findings=(BROKEN.findings[0], claim)))


def test_the_next_step_after_refused_rows_is_to_validate() -> None:
    run = replace(BROKEN, verdict="clean", inputs=("last night",))
    assert next_of(run) == (
        "Next    see which rows could not be used: dispatch-audit validate 'last night', and table quarantine"
    )
    # Rows that were delivered twice are in order.
    assert "validate" not in next_of(replace(run, refused={"repeated_row": 12}))


def test_the_next_step_after_waiting_is_at_the_consumer_to_blame() -> None:
    run = replace(BROKEN, verdict="clean", refused={})
    assert next_of(run) == (
        "Next    look at why red (consumer 1) took so long to acknowledge entry 7:118; the hashes that moved away wait "
        "for that: dispatch-audit explain 'my tables' --consumer red"
    )


@pytest.mark.parametrize(
    ("message_seconds", "longest_s", "worth_a_look"),
    # Of a trace of 90 s.
    [(899.0, 0.9, False), (900.0, 0.2, True), (90.0, 1.0, True), (89.0, 60.0, False)],
)
def test_waiting_is_worth_a_look_if_it_was_long_or_many_waited(
    message_seconds: float, longest_s: float, worth_a_look: bool
) -> None:
    block = replace(BLOCK, message_seconds=message_seconds, longest_s=longest_s)
    run = replace(BROKEN, verdict="clean", refused={}, mixed_producers=(), blocks=(block,))
    step = next_of(run)
    assert ("nothing to do" not in step) == worth_a_look
    # A costlier block of short waits does not hide it.
    many = replace(BLOCK, message_seconds=800.0, longest_s=0.1, consumer=9, consumer_name="green")
    both = next_of(replace(run, blocks=(many, block)))
    assert both == step


def test_every_cause_of_waiting_has_a_next_step() -> None:
    assert set(STEPS) == {cause.word for cause in Cause} - {"ready"}
    for cause in STEPS:
        run = replace(BROKEN, verdict="clean", refused={}, blocks=(replace(BLOCK, cause=cause, consumer=None),))
        assert "entry 7:118" in next_of(run)


@pytest.mark.parametrize("cause", ["no_permits", "unacked_limit_consumer"])
def test_next_step_says_that_the_consumer_to_blame_held_nothing(cause: str) -> None:
    worst = replace(BLOCK.worst, root_positions=())
    run = replace(BROKEN, verdict="clean", refused={}, blocks=(replace(BLOCK, cause=cause, worst=worst),))
    assert "although it held nothing" in next_of(run)


def test_next_step_names_a_producer_whose_batches_mix_keys() -> None:
    run = replace(BROKEN, verdict="clean", refused={}, blocks=())
    assert "let producer" in next_of(run)
    assert "nothing to do" in next_of(replace(run, mixed_producers=()))


def test_facts_about_clients_are_told_with_what_follows_and_what_helps() -> None:
    fact = replace(
        BROKEN.findings[0],
        rule="refused_join",
        severity="info",
        what="the join of c9 was refused 20 times",
        against=None,
        why=("ranges overlap",),
        remedy="Give each consumer ranges of its own.",
    )
    run = replace(ONLY_CLEAN.runs[0], findings=(fact,), rules=(counts("refused_join", 20, info=3),))
    text = text_of(replace(ONLY_CLEAN, runs=(run,)))

    assert "  the join of c9 was refused 20 times (and 2 more of refused_join)\n    ranges overlap\n" in text
    assert "Next    see the facts about clients above: the join of c9 was refused 20 times\n" in text


@pytest.mark.parametrize(
    ("starts_from", "asked", "reported"),
    [
        ("beginning", Window(None, 1), "Window  the beginning of the log to 1970-01-01T00:00:00.000001Z"),
        ("state", Window(0, None), "Window  1970-01-01T00:00:00Z to its end, from where the window before ended"),
        (
            "censored",
            Window(0, None),
            "Window  1970-01-01T00:00:00Z to its end; what was open when it began is not known",
        ),
    ],
)
def test_a_window_is_shown_with_what_it_starts_from(starts_from: str, asked: Window, reported: str) -> None:
    run = replace(ONLY_CLEAN.runs[0], starts_from=starts_from, window=asked)
    assert reported in text_of(replace(ONLY_CLEAN, runs=(run,))).splitlines()
    assert "Window" not in text_of(ONLY_CLEAN)


def test_accepted_findings_are_counted_and_not_shown() -> None:
    *others, holder = BROKEN.rules
    rules = (*others, replace(holder, accepted={"violation": 13}))
    run = replace(BROKEN, rules=rules, findings=(*BROKEN.findings[1:], replace(FINDING, accepted=True)))
    text = text_of(replace(BOTH, runs=(run,)))
    assert "single_holder: 13 violations, 2 permitted (13 accepted by the baseline); 3,000 checked\n" in text
    assert FINDING.evidence[0] not in text
    assert "entry 7:130 was sent twice" in text
    assert f"--violation {FINDING.finding_id}" not in text


def test_traces_that_could_not_be_audited_stand_at_the_end() -> None:
    assert text_of(WITH_UNUSABLE).endswith("\n\nUnusable  traces/torn: traces/torn is empty; record it again\n")
