"""A summary that has something of everything, for the tests of the texts."""

from dataclasses import replace
from pathlib import Path

from dispatch_audit.pipeline.contract.severity import SEVERITIES, Severity
from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.report.summary import (
    Block,
    CauseTotals,
    Finding,
    GroupCounts,
    HotKey,
    KeylessProducer,
    MixedProducer,
    Partition,
    RuleCounts,
    RunSummary,
    SubscriptionAnswers,
    Summary,
    Wait,
)
from dispatch_audit.pipeline.trace import Trace, UnusableTrace
from dispatch_audit.pipeline.trace.manifest import Manifest
from dispatch_audit.pipeline.trace.sources import Log

_SHOP = ("persistent://shop/eu/orders-partition-0", "workers")


def counts(rule: str, checked: int, **findings: int) -> RuleCounts:
    by_severity: dict[Severity, int] = {severity: findings.get(severity, 0) for severity in SEVERITIES}
    return RuleCounts(rule, checked, by_severity)


def group(counts: RuleCounts, completeness: float | None = 1.0) -> GroupCounts:
    """The counts of a trace with one subscription."""
    return GroupCounts(*_SHOP, counts.rule, counts.checked, counts.findings, completeness)


FINDING = Finding(
    rule="single_holder",
    severity="violation",
    topic="persistent://shop/eu/orders-partition-0",
    subscription="workers",
    seq=20,
    ts_us=1_767_225_601_250_000,
    sticky_hash=4711,
    key="order-7",
    permitted_by=None,
    known_bug=None,
    explanation="entry 7:120 of hash 4711 went to blue (consumer 2), but red (consumer 1) still held 7:118",
    what="entry 7:120 of hash 4711 went to blue (consumer 2)",
    against="red (consumer 1) still held 7:118",
    evidence=("seq 10: 7:118 dispatched to red (consumer 1)", "seq 20: 7:120 dispatched to blue (consumer 2)"),
    finding_id="3f2a9c04d1b7",
)

DUPLICATE = Finding(
    rule="early_duplicate",
    severity="known_bug",
    topic="persistent://shop/eu/orders-partition-0",
    subscription="workers",
    seq=31,
    ts_us=1_767_225_602_000_000,
    sticky_hash=17,
    key=None,
    permitted_by=None,
    known_bug="F10",
    explanation="entry 7:130 was sent twice",
    what="entry 7:130 was sent twice",
    evidence=("seq 31: 7:130 dispatched to blue (consumer 2)",),
    finding_id="90be55a1c2d3",
)

WAIT = Wait(
    explanation="hash 4711 moved to blue (consumer 2), but red (consumer 1) still held 2 of its entries",
    from_ts_us=1_767_225_601_000_000,
    seconds=2.5,
    root_positions=("7:118",),
    ended_by="ack",
    held=True,
)
BLOCK = Block(
    "draining",
    *_SHOP,
    broker=None,
    consumer=1,
    consumer_name="red",
    intervals=113,
    message_seconds=1_250.5,
    longest_s=2.5,
    worst=WAIT,
)

INCOMPLETE = Partition(
    *_SHOP, 0.75, rows=12_000, rows_refused=12, rows_censored=2_988, dispatches_undecided=0, dispatches_without_key=0
)
HOT = HotKey(*_SHOP, 4711, "order-7", 2, 1_980, 0, 0.4, 37, 5.1)
NAMELESS = HotKey(*_SHOP, 56505, None, 1, 9, 2, None, None, 0.0)
MIXED = MixedProducer(*_SHOP, "shop-1", batches=12, batches_inspected=10, mixed_batches=4)

KEYLESS = KeylessProducer(*_SHOP, "shop-2", entries=40, keyless_entries=10)
OUT_OF_ORDER = SubscriptionAnswers(*_SHOP, "broken", "flowing", 3_000, 3_000)
FLOWING = SubscriptionAnswers(*_SHOP, "kept", "flowing", 700, 700)

_BROKEN_RULES = (
    counts("early_duplicate", 3_000, known_bug=1),
    counts("ownership", 3_000),
    counts("single_holder", 3_000, violation=13, permitted=2),
)

BROKEN = RunSummary(
    run_key="0123456789abcdef",
    inputs=("traces/night",),
    verdict="violation",
    completeness=0.999,
    events_in=12_000,
    events_quarantined=12,
    profile="pulsar-4.0.7",
    pulsar_version="4.0.8",
    engine="Spark 4.2.0",
    from_ts_us=1_767_225_600_000_000,
    to_ts_us=1_767_225_690_000_000,
    rules=_BROKEN_RULES,
    findings=(FINDING, DUPLICATE),
    causes=(CauseTotals("draining", 113, 1_250.5), CauseTotals("no_permits", 1, 0.25)),
    blocks=(BLOCK,),
    refused={"broken_json": 10, "missing_field": 2},
    groups=tuple(map(group, _BROKEN_RULES)),
    incomplete=(INCOMPLETE,),
    hot_keys=(HOT, NAMELESS),
    mixed_producers=(MIXED,),
    order="broken",
    progress="flowing",
    subscriptions=(OUT_OF_ORDER,),
)

CLEAN = RunSummary(
    run_key="fedcba9876543210",
    inputs=("traces/day",),
    verdict="clean",
    completeness=1.0,
    events_in=3_000,
    events_quarantined=0,
    profile="pulsar-4.2.4",
    pulsar_version=None,
    from_ts_us=None,
    to_ts_us=None,
    rules=(counts("ownership", 700), counts("single_holder", 700)),
    findings=(),
    causes=(CauseTotals("draining", 2, 0.75),),
    blocks=(),
    refused={},
    order="kept",
    progress="flowing",
    subscriptions=(FLOWING,),
)

_WAITED = SubscriptionAnswers(*_SHOP, "kept", "held_up", 700, 700, 7.3, "draining", "red (consumer 1)")
HELD_UP = replace(CLEAN, inputs=("traces/hung",), progress="held_up", subscriptions=(_WAITED,), blocks=(BLOCK,))
_NO_KEYS = SubscriptionAnswers(*_SHOP, "not_provable", "not_provable", 700, 0, missing=("keys", "publishes"))
UNPROVEN = replace(
    CLEAN,
    inputs=("traces/keys",),
    verdict="not_provable",
    order="not_provable",
    progress="not_provable",
    subscriptions=(_NO_KEYS,),
)

TABLES = {"runs": "/tmp/report/runs", "violations": "/tmp/report/violations"}
BOTH = Summary("/tmp/report", TABLES, (BROKEN, CLEAN))
ONLY_CLEAN = Summary("/tmp/report", TABLES, (CLEAN,))
WITH_UNUSABLE = replace(
    ONLY_CLEAN, unusable=(UnusableTrace("traces/torn", TraceError("traces/torn is empty", "record it again")),)
)

# What a client may call itself, its key or its topic, to break out of every format there is.
HOSTILE = (
    "a\"b'<c>&]]>--><script>alert(1)</script>\n::error file=x,line=1::owned\r\n%0A%25##[error]|`_*~[link](http://evil.test)"
    " www.evil.test @team {0} {{1}} \\ \x1b[2J\x00\u202e\ufffe\ud800"
)
_HOSTILE_FINDING = replace(
    FINDING,
    topic=HOSTILE,
    subscription=HOSTILE,
    key=HOSTILE,
    explanation=f"entry 7:120 went to {HOSTILE}",
    what=f"entry 7:120 went to {HOSTILE}",
    against=f"{HOSTILE} held it",
    why=(HOSTILE,),
    remedy=HOSTILE,
    change=f"join {HOSTILE}",
    evidence=(f"seq 10: 7:118 dispatched to {HOSTILE}",),
)
_HOSTILE_COUNTS = counts("single_holder", 1, violation=1)
HOSTILE_RUN = replace(
    BROKEN,
    inputs=(HOSTILE,),
    pulsar_version=HOSTILE,
    rules=(_HOSTILE_COUNTS,),
    findings=(_HOSTILE_FINDING,),
    groups=(replace(group(_HOSTILE_COUNTS), topic=HOSTILE, subscription=HOSTILE),),
)
OF_HOSTILES = Summary("/tmp/report", TABLES, (HOSTILE_RUN,))


def trace_at(folder: Path) -> Trace:
    """A trace of one log that need not exist."""
    return Trace(Manifest(pulsar_version="4.0.8"), str(folder), (Log("json", str(folder / "events.jsonl")),))
