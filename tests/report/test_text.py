from dataclasses import replace
from io import StringIO

import pytest
from report_rows import BOTH, BROKEN, FINDING, ONLY_CLEAN, TABLES
from rich.console import Console

from dispatch_audit.pipeline.report.summary import Summary
from dispatch_audit.pipeline.report.text import print_report
from dispatch_audit.pipeline.windows.window import Window


def text_of(summary: Summary, width: int = 80) -> str:
    stream = StringIO()
    print_report(summary, Console(file=stream, width=width))
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def test_what_was_left_out_of_the_waits_is_said() -> None:
    assert "left out" not in text_of(BOTH)
    told = text_of(replace(BOTH, runs=(replace(BROKEN, intervals_left_out=1_200),)))
    assert "  1,200 intervals of lower cost left out (raise blocking.intervals_max to keep more)\n" in told


def test_a_broken_and_a_clean_trace() -> None:
    assert (
        text_of(BOTH)
        == """\
VIOLATION  traces/night: the contract of Key_Shared was broken
Read    12,000 events, 12 quarantined (broken_json 10, missing_field 2); completeness 99.9 %
Time    2026-01-01 00:00:00.000 to 2026-01-01 00:01:30.000 UTC (90.0 s)
Broker  Pulsar 4.0.8, by the rules of profile pulsar-4.0.7
Run     0123456789abcdef, on Spark 4.2.0
        75 % of 12,000 rows judged (2,988 from before its state was known, 12 refused): \
persistent://shop/eu/orders-partition-0, workers

                                     known       not
rule             checked  violation    bug  provable  permitted  info
early_duplicate    3,000          0      1         0          0     0
ownership          3,000          0      0         0          0     0
single_holder      3,000         13      0         0          2     0

single_holder: 15 findings, the worst 1
  violation  persistent://shop/eu/orders-partition-0, workers, key order-7
    entry 7:120 of hash 4711 went to blue (consumer 2), however red (consumer 1) still held 7:118
      seq 10: 7:118 dispatched to red (consumer 1)
      seq 20: 7:120 dispatched to blue (consumer 2)

early_duplicate: 1 finding
  known bug (F10)  persistent://shop/eu/orders-partition-0, workers
    entry 7:130 was sent twice
      seq 31: 7:130 dispatched to blue (consumer 2)

Blocking
  draining: 113 intervals, 1,250.5 message-seconds
  no_permits: 1 interval, 0.2 message-seconds
    hash 4711 moved to blue (consumer 2), but red (consumer 1) still held 2 of its entries; \
from 2026-01-01 00:00:01.000 for 2.5 s, ended by ack, oldest unacknowledged 7:118 \
(persistent://shop/eu/orders-partition-0, workers)

Hot keys
  key order-7 on hash 4711 with 1 other key: 1,980 dispatches (40 %); up to 37 entries pending at once; its hash \
waited 5.1 s (persistent://shop/eu/orders-partition-0, workers)
  a key that is not recorded on hash 56505: at least 9 dispatches; its hash waited 0 ms \
(persistent://shop/eu/orders-partition-0, workers)

Batches of several keys; the broker routes a batch by the key of its first message
  shop-1: 4 of 10 batches; the keys of 2 more are not recorded (persistent://shop/eu/orders-partition-0, workers)

CLEAN  traces/day: nothing broke the contract of Key_Shared
Read    3,000 events, 0 quarantined; completeness 100 %
Broker  by the rules of profile pulsar-4.2
Run     fedcba9876543210

                                   known       not
rule           checked  violation    bug  provable  permitted  info
ownership          700          0      0         0          0     0
single_holder      700          0      0         0          0     0

Blocking
  draining: 2 intervals, 0.8 message-seconds

VIOLATION  all 2 traces: the contract of Key_Shared was broken
Tables  /tmp/report: runs, violations
"""
    )


def test_one_trace_has_one_verdict() -> None:
    assert text_of(ONLY_CLEAN).count("CLEAN") == 1


def test_the_worst_few_findings_of_a_rule_are_told() -> None:
    findings = tuple(replace(FINDING, explanation=f"number {number}") for number in range(7))
    text = text_of(Summary("/tmp/report", TABLES, (replace(BROKEN, findings=findings),)))
    assert [line.strip() for line in text.splitlines() if "number" in line] == [f"number {n}" for n in range(5)]
    assert "single_holder: 15 findings, the worst 5\n" in text


@pytest.mark.parametrize("width", [40, 300])
def test_the_width_breaks_no_sentence(width: int) -> None:
    assert f"    {FINDING.explanation}\n" in text_of(BOTH, width)


def test_names_of_clients_do_not_steer_the_terminal() -> None:
    finding = replace(FINDING, key="\x1b]0;owned\x07[bold]", explanation="[red]\x1b[2J")
    text = text_of(Summary("/tmp/report", TABLES, (replace(BROKEN, findings=(finding,)),)))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "key \N{REPLACEMENT CHARACTER}]0;owned\N{REPLACEMENT CHARACTER}[bold]" in text
    assert "[red]\N{REPLACEMENT CHARACTER}[2J" in text


def test_a_wait_that_goes_on_says_so() -> None:
    waits = (replace(BROKEN.waits[0], ended_by=None, seconds=None, root_positions=("1:1", "1:2", "1:3", "1:4")),)
    text = text_of(Summary("/tmp/report", TABLES, (replace(BROKEN, waits=waits),)))
    assert "for an unknown time, still open at the end, oldest unacknowledged 1:1, 1:2, 1:3 and 1 more" in text


@pytest.mark.parametrize(
    ("starts_from", "asked", "told"),
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
def test_a_window_is_told_with_what_it_starts_from(starts_from: str, asked: Window, told: str) -> None:
    run = replace(ONLY_CLEAN.runs[0], starts_from=starts_from, window=asked)
    assert told in text_of(replace(ONLY_CLEAN, runs=(run,))).splitlines()
    assert "Window" not in text_of(ONLY_CLEAN)
