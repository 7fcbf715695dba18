"""Audits drawn schedules and compares what the audit says with what the simulated broker did."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import Any, Final, TypeAlias

import pyarrow as pa
from broker_truth import Truth
from displaced import displaced
from drawn_schedules import FAULTS, NONE, PER_CONSUMER, PER_SUBSCRIPTION, Schedule, drawn_schedule
from incomplete_rows import begun_later
from simulated import SETTINGS, Audited

from dispatch_audit.pipeline.simulate.judge import batches_of, config_of, rows_by_table, tables_of
from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.state.dispatch_rates import RETRY_US

MS: Final = 1000
_PERIOD_US: Final = 1_000_000
THRESHOLD_US: Final = SETTINGS.blocking.stall_threshold_ms * MS
_PROGRESS: Final = frozenset({"stalled", "draining_stuck"})
# Where the order of joins and leaves is open, the audit says that there is a stall and that it cannot prove it.
_SAID: Final = frozenset({"violation", "known_bug", "not_provable"})
# Shorter than the threshold by what looks and the skew of rows take away.
_STALLED_US: Final = THRESHOLD_US - 200 * MS
_AROUND_US: Final = 10 * MS
# Longer than the threshold by what rows and looks at the simulation do not show.
_CERTAIN_US: Final = THRESHOLD_US + 700 * MS
# Entries in replay for one consumer: ten full reads, and more than a few small ones (docs/BLOCKING.md).
_READS_IN_REPLAY: Final = 10
_GROWN: Final = 100
# More than the audit asks for: it counts at the end of a wait, when some of them may have been sent.
_CERTAINLY_GROWN: Final = 1.25
_LIMIT_OF: Final = {"over_consumer_limit": PER_CONSUMER, "over_subscription_limit": PER_SUBSCRIPTION}
# Messages beyond a limit that reads in flight do not explain.
_OVER: Final = 12

Missing: TypeAlias = Callable[[pa.RecordBatch, Random], pa.RecordBatch]
"""Takes rows away, which ones by chance."""


@dataclass
class Judged:
    """A schedule, its audit and what is wrong with that.

    Attributes:
        false: findings without a fault, as sentences.
        missed: what should have been found.
        effect: whether the fault did anything that an audit can see.
        found: the findings of broken rules, by rule, severity and known bug.
    """

    seed: int
    kind: str
    version: str
    false: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    effect: bool = False
    found: Counter[tuple[str, str, str]] = field(default_factory=Counter)


def simulated_rows(schedule: Schedule, seed: int) -> tuple[PartitionSimulation, Truth, pa.RecordBatch]:
    """Simulates a schedule; returns its rows as its recorder writes them."""
    simulation = PartitionSimulation(schedule.workload, schedule.setup)
    truth = Truth(simulation)
    table = pa.Table.from_batches(list(batches_of(simulation)))
    if schedule.as_recorded:
        batch = displaced(table, Random(seed), 0.8 * min(schedule.setup.timing.network_us, 3 * MS), flows=True)
    else:
        batch = table.combine_chunks().to_batches()[0]
    return simulation, truth, batch


def judged_schedule(seed: int, kind: str = NONE, missing: Missing | None = None) -> Judged:
    """Simulates and audits the schedule of a seed; `missing` takes rows away."""
    schedule = drawn_schedule(seed, kind)
    simulation, truth, batch = simulated_rows(schedule, seed)
    config = config_of(schedule.setup, SETTINGS)
    if missing is not None:
        batch = missing(batch, Random(seed))
        config = replace(config, complete_from_start=missing is not begun_later)
    if schedule.as_recorded:
        config = replace(config, skew_us=SETTINGS.trace.recorder_skew_us)
    tables = rows_by_table(tables_of([batch], schedule.workload, config))
    assert missing or tables["coverage"][0]["rows_refused"] == 0, tables.get("refused")
    outcome = Audited(simulation, tables)
    result = Judged(seed, kind, schedule.setup.version)
    result.false += _waited_twice(tables)
    for row in tables.get("violations", []):
        if row["severity"] in {"violation", "known_bug"}:
            result.found[row["rule"], row["severity"], row.get("known_bug") or ""] += 1
    _compare(result, outcome, truth, batch)
    return result


def _waited_twice(tables: dict[str, list[dict[str, Any]]]) -> list[str]:
    """The waits of the subscription that begin before the one before them is over."""
    waits = [row for row in tables.get("blocking", []) if row["scope"] == "subscription"]
    waits.sort(key=lambda row: int(row["from_ts_us"]))
    return [
        f"{later['cause']}: begins within another wait of the subscription: {later['explanation']}"
        for wait, later in pairwise(waits)
        if wait["to_ts_us"] is None or later["from_ts_us"] < wait["to_ts_us"]
    ]


def _compare(result: Judged, outcome: Audited, truth: Truth, batch: pa.RecordBatch) -> None:
    broken = [row for row in outcome.tables.get("violations", []) if row["severity"] in {"violation", "known_bug"}]
    fault = FAULTS.get(result.kind)
    expected = fault.rules if fault else ()
    allowed = expected + (fault.follow if fault else ())
    unexplained = set(outcome.unexplained)
    for row in broken:
        if _assumes_what_is_hidden(row, outcome.simulation):
            continue
        if row["rule"] in _PROGRESS:
            if not _was_stalled(row, outcome, truth):
                result.false.append(f"{row['rule']} {row['severity']}: {row['explanation']}")
        elif row["rule"] not in allowed and row["explanation"] in unexplained:
            result.false.append(f"{row['rule']}: {row['explanation']}")
    if fault is None:
        return
    result.effect = _had_effect(result.kind, outcome, truth, batch)
    said = [row["rule"] for row in outcome.tables.get("violations", []) if row["severity"] in _SAID]
    if result.effect and not any(rule in expected for rule in said):
        spans = [(s.from_us // MS, s.to_us // MS, sorted(s.entries)[:5]) for s in truth.certain.spans]
        result.missed.append(f"{' or '.join(expected)}; silences (ms, entries) {spans}")


def _assumes_what_is_hidden(row: dict[str, Any], simulation: PartitionSimulation) -> bool:
    """Whether a finding names a setting that the broker has changed by then without a row that says so."""
    named = [assumed["setting"] for assumed in row["assumes"] or ()]
    return any(setting.startswith(name) for name in named for setting in _hidden_until(row["ts_us"], simulation))


def _hidden_until(ts_us: int, simulation: PartitionSimulation) -> set[str]:
    """The settings of which the broker has had another value than the trace claims; empty: rows say all changes."""
    setup, start_us = simulation.setup, simulation.workload.start_us
    if setup.recorded_settings != "not":
        return set()
    changes = [action.settings or {} for action in simulation.workload.actions if start_us + action.at_us <= ts_us]
    defaults = {name: None for change in changes for name in change}
    at_first = {**defaults, **setup.broker}
    return {name for change in changes for name, value in change.items() if value not in (None, at_first[name])}


def _was_stalled(row: dict[str, Any], outcome: Audited, truth: Truth) -> bool:
    """Whether the broker could have sent something in the interval of a finding, or the entry it names for long."""
    faults, workload, entry = outcome.simulation.setup.faults, outcome.simulation.workload, row["entry_id"]
    if entry is not None and workload.keys[entry] in {faults.starved_key, faults.misrouted_key}:
        # Its owner is passed over all the time, whether or not the other consumer can be sent anything.
        return True
    detail = json.loads(row["detail"])
    to_us = row["ts_us"] - workload.start_us + _AROUND_US
    from_us = to_us - int(detail["seconds"] * 1e6) - 2 * _AROUND_US
    # A limit of the dispatch rate explains that nothing is sent, and not that later entries are sent instead. Where no
    # row has the policies, only some of the pauses that it makes look like one.
    throttled = detail.get("no_progress") and outcome.simulation.setup.recorded_settings != "not"
    if entry is not None and not throttled and truth.could_be_sent_us(entry, from_us, to_us) >= _STALLED_US:
        return True
    # F6, and where a dispatcher looks at what nobody can be sent: what waits at the head of replay, for whatever
    # reason, keeps the rest of replay from being looked at.
    hides = row["severity"] == "known_bug" or not outcome.simulation.setup.switches.filtered_out_of_order
    if hides and truth.passed_over.longest_between(entry, from_us, to_us) >= _STALLED_US:
        return True
    if truth.silences.longest_between(from_us, to_us) >= _STALLED_US:
        return True
    # F6 is no silence: replay grows, because the broker goes on to read for a consumer that can be sent nothing.
    measures = outcome.simulation.progress.measures
    return "into replay, which nothing limits" in row["explanation"] and measures.replay_peak >= _GROWN


def _had_effect(kind: str, outcome: Audited, truth: Truth, batch: pa.RecordBatch) -> bool:
    if kind in _LIMIT_OF and _LIMIT_OF[kind] in _hidden_until(
        max(batch.column("ts_us").to_pylist()), outcome.simulation
    ):
        # Policies that nobody recorded have given another one.
        return False
    if kind == "over_consumer_limit":
        return truth.over_consumer >= _OVER
    if kind == "over_subscription_limit":
        return truth.over_subscription >= _OVER + outcome.simulation.state.settings.read_batch
    if kind == "misrouted_key":
        return _misrouted(outcome.simulation, batch)
    # Nobody sees more than the rows cover.
    last_us = max(batch.column("ts_us").to_pylist()) - outcome.simulation.workload.start_us
    if kind == "unlimited_replay":
        least = max(_GROWN, _READS_IN_REPLAY * outcome.simulation.state.settings.read_batch)
        return truth.grown_until(last_us) >= _CERTAINLY_GROWN * least
    return any(
        min(silence.to_us, last_us) - silence.from_us
        >= _CERTAIN_US + _debt_us(outcome.simulation, batch, silence.from_us)
        for silence in truth.certain.spans
    )


def _debt_us(simulation: PartitionSimulation, batch: pa.RecordBatch, from_us: int) -> int:
    """What a rate limit may explain beyond its period by itself (docs/BLOCKING.md): a retry, and what was sent at once.

    The messages of a second before the pause may have been charged beyond the limit, and each period pays back as many
    as the limit has. No row shows what is charged to a limit in bytes, or to one that others use, too: it may explain
    a pause once more after another cause is over.
    """
    settings = [simulation.setup.broker, *(action.settings or {} for action in simulation.workload.actions)]
    named = [item for some in settings for item in some.items() if item[0].startswith("dispatchThrottlingRate")]
    if not named:
        return 0
    limits = [(name, value) for name, value in named if isinstance(value, int) and value > 0]
    messages = [value for name, value in limits if name.endswith("InMsg")]
    begin_us = simulation.workload.start_us + from_us
    sent = sum(
        row["batch_size"] or 1
        for row in batch.select(["event", "phase", "ts_us", "batch_size"]).to_pylist()
        if row["event"] == "dispatch" and row["phase"] == "start" and 0 <= begin_us - row["ts_us"] <= _PERIOD_US
    )
    vague = any(not (name.endswith("InMsg") and "PerSubscription" in name) for name, _ in limits)
    again_us = _PERIOD_US + RETRY_US if vague else 0
    return RETRY_US + again_us + (sent * _PERIOD_US // min(messages) if messages else 0)


def _misrouted(simulation: PartitionSimulation, batch: pa.RecordBatch) -> bool:
    """Whether an entry went to another consumer than its owner; the consumers of these schedules stay."""
    state = simulation.state
    sent = batch.select(["event", "consumer", "entry_id"]).to_pylist()
    return any(
        row["event"] == "dispatch" and row["consumer"] != state.selector.select(state.hashes[row["entry_id"]])
        for row in sent
    )
