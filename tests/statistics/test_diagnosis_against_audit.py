"""The diagnosis of a broker's statistics against the audit of its trace of the same moments: no contradiction."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from embedded_commands import EmbeddedCommands
from test_states_of_a_broker import ROOT, SIGNS, STATES, diagnosed

Row = dict[str, Any]
Numbers = tuple[int, ...]

CAUSES = {**{sign: cause for cause, sign in SIGNS.items()}, "hangs": "no_permits", "no_permits": "no_permits"}
"""The cause of docs/BLOCKING.md that an audit sees where a diagnosis shows a sign."""

DUMPS: list[Numbers] = [(1,), (2,), (1, 2)]
ANSWERED_MS = 500

NO_WAIT = {"not_read_yet", "replay_queue"}
"""What the audit of a moment of a healthy subscription may say: entries are on their way."""


def ended(interval: Row) -> float:
    """When an interval ended, in microseconds; those that are open at the end of the trace went on."""
    return float("inf") if interval["to_ts_us"] is None else float(interval["to_ts_us"])


@dataclass(frozen=True)
class Audited:
    """What an audit says of the time of some dumps of a state.

    Attributes:
        order: of the whole trace.
        blocking: intervals that reach into that time.
        begin_us: when the first dump was asked for.
        end_us: when the last one was certainly answered.
    """

    order: str
    blocking: list[Row]
    begin_us: int
    end_us: int

    @property
    def stands_still(self) -> bool:
        """Whether nothing was sent to anybody all the time."""
        return any(
            row["scope"] == "subscription" and row["from_ts_us"] <= self.begin_us and ended(row) >= self.end_us
            for row in self.blocking
        )

    def waited_for(self, cause: str) -> set[str]:
        """The names of the consumers that entries waited for, for a reason."""
        rows = [row for row in self.blocking if row["cause"] == cause and row["scope"] in ("hash", "consumer")]
        return {row["blocking_consumer_name"] or row["consumer_name"] for row in rows} - {None}


@pytest.fixture(scope="module")
def audit_of(
    run_embedded: EmbeddedCommands, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, Numbers], Audited]:
    """Returns what the audit of a state's trace says."""
    target = tmp_path_factory.mktemp("audits") / "tables"
    traces = [ROOT / name / "trace" for name in STATES]
    done = run_embedded("audit", *traces, "--out", target, "--fail-on", "never", "--quiet")
    assert done.returncode == 0, done.stderr

    def rows(table: str) -> list[Row]:
        found: list[Row] = DeltaTable(str(target / table)).to_pyarrow_table().to_pylist()
        return found

    runs = {Path(run["inputs"][0]).parent.name: run for run in rows("runs")}
    blocking = rows("blocking")

    def audited(name: str, numbers: Numbers) -> Audited:
        run, taken_ms = runs[name], json.loads((ROOT / name / "expect.json").read_text())["taken_ms"]
        begin, end = taken_ms[numbers[0] - 1] * 1000, (taken_ms[numbers[-1] - 1] + ANSWERED_MS) * 1000
        own = [row for row in blocking if row["run_key"] == run["run_key"]]
        between = [row for row in own if row["from_ts_us"] < end and ended(row) > begin]
        return Audited(run["order_verdict"], between, begin, end)

    return audited


@pytest.mark.heavy
@pytest.mark.parametrize("numbers", DUMPS)
@pytest.mark.parametrize("name", STATES)
def test_a_cause_is_one_that_the_trace_shows(
    name: str, numbers: Numbers, audit_of: Callable[[str, Numbers], Audited]
) -> None:
    diagnosis, expected = diagnosed(name, *numbers)
    audited = audit_of(name, numbers)
    proved = [reason for reason in diagnosis.reasons if reason.is_alarm]
    # One dump may leave open whether it goes on; what it names first has to be true all the same.
    first = diagnosis.reasons[:1] if expected["cause"] else ()
    for reason in (*first, *proved):
        cause = CAUSES[reason.name]
        assert cause in {row["cause"] for row in audited.blocking}, reason
        if cause in ("draining", "no_permits", "unacked_limit_consumer"):
            assert set(reason.consumers) == audited.waited_for(cause), reason


@pytest.mark.heavy
@pytest.mark.parametrize("name", STATES)
def test_what_held_messages_up_in_the_trace_is_no_healthy_subscription(
    name: str, audit_of: Callable[[str, Numbers], Audited]
) -> None:
    diagnosis, _ = diagnosed(name, 1, 2)
    causes = {row["cause"] for row in audit_of(name, (1, 2)).blocking} - NO_WAIT
    assert bool(causes) == diagnosis.is_alarm, causes


@pytest.mark.heavy
@pytest.mark.parametrize("name", STATES)
def test_both_say_whether_anything_was_sent(name: str, audit_of: Callable[[str, Numbers], Audited]) -> None:
    diagnosis, expected = diagnosed(name, 1, 2)
    assert diagnosis.facts is not None
    if audit_of(name, (1, 2)).stands_still:
        assert not diagnosis.facts.flows
    else:
        assert diagnosis.facts.flows or expected["flows"] == "idle"


@pytest.mark.heavy
@pytest.mark.parametrize("name", STATES)
def test_the_broker_kept_the_order_and_no_bug_is_named(name: str, audit_of: Callable[[str, Numbers], Audited]) -> None:
    diagnosis, _ = diagnosed(name, 1, 2)
    assert audit_of(name, (1, 2)).order == "kept"
    assert not [reason for reason in diagnosis.reasons if reason.is_alarm and reason.bugs]
