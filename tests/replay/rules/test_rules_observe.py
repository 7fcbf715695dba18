"""Rules and observers of waits read the dispatcher: asked twice, left out or in another order they change nothing else.

The replays run in the interpreter, in a process of their own, where the functions of the kernel can be exchanged.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from inspect import isfunction
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pytest

_HERE = Path(__file__).resolve().parents[1]
_ROOT = _HERE.parents[1]

RULES: Final = {
    "check_owner": {"ownership", "gap_delivery"},
    "check_single_holder": {"single_holder"},
    "check_early_duplicate": {"early_duplicate"},
    "check_overtaking": {"redelivery_order", "replay_overtaken"},
    "check_redelivery_count": {"redelivery_count"},
    "check_first_delivery": {"first_delivery_order"},
}
"""By the function that the kernel asks about a dispatch, the rules that it checks."""

Tables = dict[str, list[str]]
"""By table, its rows as sorted texts."""


@pytest.fixture(scope="module")
def replays() -> dict[str, Any]:
    """The tables of each way to ask, by its name, and what the program has to say besides."""
    paths = (_ROOT, _HERE.parent, _HERE, _HERE / "dispatcher", _HERE / "state")
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(map(str, paths))}
    result = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.heavy
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_finds_something_in_what_is_replayed(rule: str, replays: dict[str, Any]) -> None:
    assert RULES[rule] & {json.loads(row)["rule"] for row in replays["once"]["violations"]}


@pytest.mark.heavy
def test_rules_that_are_asked_twice_say_the_same_twice(replays: dict[str, Any]) -> None:
    assert replays["twice"] == replays["once"]


@pytest.mark.heavy
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_left_out_is_missed_by_nothing_else(rule: str, replays: dict[str, Any]) -> None:
    assert _without(replays[f"without {rule}"], RULES[rule]) == _without(replays["once"], RULES[rule])


@pytest.mark.heavy
def test_rules_may_be_asked_in_reverse_order(replays: dict[str, Any]) -> None:
    assert replays["in reverse order"] == replays["once"]


@pytest.mark.heavy
@pytest.mark.parametrize("table", ["assignments", "draining", "consumers", "producers"])
def test_the_dispatcher_gets_by_without_an_observer_of_waits(table: str, replays: dict[str, Any]) -> None:
    assert replays["without waits"][table] == replays["once"][table]


@pytest.mark.heavy
def test_rules_get_by_without_an_observer_of_waits(replays: dict[str, Any]) -> None:
    def broken(tables: Tables) -> list[Any]:
        rows = map(json.loads, tables["violations"])
        return [(row["rule"], row["replay"], row["seq"]) for row in rows if row["rule"] in set().union(*RULES.values())]

    assert broken(replays["without waits"]) == broken(replays["once"])


@pytest.mark.heavy
def test_observers_get_by_with_a_state_that_refuses_writes(replays: dict[str, Any]) -> None:
    assert replays["frozen"] == replays["once"]


_JUDGED: Final = (
    "explanation",
    "what",
    "against",
    "why",
    "remedy",
    "change",
    "severity",
    "known_bug",
    "permitted_by",
    "epoch",
    "order_verdict",
)
"""Columns of verdicts, which weigh the findings on one dispatch against each other."""


_SEVERITIES: Final = ("violations", "known_bug", "not_provable", "permitted", "info")


def _without(tables: Tables, rules: set[str]) -> Tables:
    """The tables without the findings of some rules, and without what verdicts make of all of them."""
    found: Tables = {}
    for table, rows in tables.items():
        kept = [row for row in map(json.loads, rows) if row.get("rule") not in rules]
        for row in kept if table == "metrics" else ():
            row["findings"] = sum(map(row.pop, _SEVERITIES))
        facts = (
            {name: value for name, value in row.items() if name not in _JUDGED and value is not None} for row in kept
        )
        found[table] = sorted(json.dumps(row, sort_keys=True) for row in facts)
    return found


if __name__ == "__main__":
    from local_replay import LOW, Log, send, tables_of
    from test_kernel_against_simple import random_schedule
    from test_uncompiled import _KINDS, _LIMITS, _blocked

    from dispatch_audit.pipeline.replay.blocking.monitor import BlockingMonitor
    from dispatch_audit.pipeline.replay.blocking.recently_joined import RecentlyJoined
    from dispatch_audit.pipeline.replay.dispatcher import dispatches
    from dispatch_audit.pipeline.replay.rules import dispatch_rules
    from dispatch_audit.pipeline.replay.state.output import FINDINGS, Output
    from dispatch_audit.pipeline.replay.state.state import State

    Rule = Callable[..., None]

    def beyond_limits() -> Log:
        """A consumer gets more messages than it may, one with a wrong redelivery count, and two in the wrong order."""
        log = Log()
        log.join(1)
        send(log, range(6))
        log.redeliver(1, 5)
        log.dispatch(1, 5, count=7)
        for entry in (6, 7):
            log.publish(entry)
        for entry in (7, 6):
            log.dispatch(1, entry)
        return log

    def two_holders() -> Log:
        """A consumer is sent an entry of a hash that it got from one that still holds another."""
        log = Log()
        log.join(1)
        log.publish(0, LOW)
        log.dispatch(1, 0, LOW)
        log.join(2)
        log.publish(1, LOW)
        log.dispatch(2, 1, LOW)
        return log

    def replayed() -> Tables:
        found = [tables_of(random_schedule(seed=3, length=40).log.rows, settings=_LIMITS)]
        found += [tables_of(_blocked().rows, version=version, settings=_LIMITS) for version in _KINDS]
        found += [tables_of(log.rows, settings=_LIMITS) for log in (beyond_limits(), two_holders())]
        tables: Tables = {}
        for number, of_one in enumerate(found):
            for table, rows in of_one.items():
                texts = (json.dumps({**row, "replay": number}, sort_keys=True, default=str) for row in rows)
                tables.setdefault(table, []).extend(texts)
        return {table: sorted(rows) for table, rows in tables.items()}

    @contextmanager
    def instead(exchanged: Mapping[str, Rule]) -> Iterator[None]:
        """Other functions in the place of rules."""
        with ExitStack() as stack:
            for name, rule in exchanged.items():
                module = dispatches if name == "check_owner" else dispatch_rules
                stack.enter_context(patch.object(module, name, rule))
            yield

    def rule_of(name: str) -> Rule:
        rule: Rule = getattr(dispatch_rules, name)
        return rule

    def twice(rule: Rule) -> Rule:
        def asked(state: State, out: Output, *terms: Any) -> None:
            first = int(out.filled[FINDINGS])
            rule(state, out, *terms)
            second = int(out.filled[FINDINGS])
            rule(state, out, *terms)
            third = int(out.filled[FINDINGS])
            assert out.findings[first:second].tobytes() == out.findings[second:third].tobytes(), rule
            out.filled[FINDINGS] = second

        return asked

    @contextmanager
    def in_reverse_order() -> Iterator[None]:
        asked: list[tuple[Rule, tuple[Any, ...]]] = []
        check_dispatch = dispatch_rules.check_dispatch

        def put_off(rule: Rule) -> Rule:
            return lambda *terms: asked.append((rule, terms))

        def all_reversed(*terms: Any) -> None:
            check_dispatch(*terms)
            for rule, given in reversed(asked):
                rule(*given)
            asked.clear()

        rules = {name: put_off(rule_of(name)) for name in RULES if name != "check_owner"}
        with instead(rules), patch.object(dispatches, "check_dispatch", all_reversed):
            yield

    def frozen(state: State) -> State:
        """The state, whose arrays refuse writes, with the memories as they are."""

        def read_only(array: Any) -> Any:
            if isinstance(array, np.ndarray):
                array = array.view()
                array.flags.writeable = False
            return array

        return State(*map(read_only, state))

    def with_a_frozen_state(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def observed(*terms: Any, **named: Any) -> Any:
            given = (frozen(term) if isinstance(term, State) else term for term in terms)
            return function(*given, **named)

        return observed

    @contextmanager
    def observers(
        rooms: tuple[str, ...], exchanged: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> Iterator[None]:
        """The functions of some rooms exchanged where transitions and `Dispatcher` call them."""
        replay = dispatches.__package__.removesuffix("dispatcher")
        of_rooms = tuple(replay + room for room in rooms)
        with ExitStack() as stack:
            room = Path(dispatches.__file__).parent
            for caller in room.rglob("*.py"):
                parts = caller.relative_to(room).with_suffix("").parts
                module = sys.modules.get(".".join((dispatches.__package__, *parts)))
                for name, function in list(vars(module).items()) if module else ():
                    if isfunction(function) and function.__module__.startswith(of_rooms):
                        stack.enter_context(patch.object(module, name, exchanged(function)))
            yield

    @contextmanager
    def all_frozen() -> Iterator[None]:
        """Whatever rules, waits and snapshots have gets a frozen state."""
        with ExitStack() as stack:
            stack.enter_context(observers(("blocking", "rules", "snapshots"), with_a_frozen_state))
            for observer in (BlockingMonitor, RecentlyJoined):
                for name, function in list(vars(observer).items()):
                    if isfunction(function):
                        stack.enter_context(patch.object(observer, name, with_a_frozen_state(function)))
            yield

    def replayed_with(exchanged: AbstractContextManager[None]) -> Tables | str:
        """The tables, or what went wrong."""
        try:
            with exchanged:
                return replayed()
        except (AssertionError, ValueError) as error:
            return repr(error)

    ways = {f"without {name}": instead({name: lambda *terms: None}) for name in RULES}
    ways["twice"] = instead({name: twice(rule_of(name)) for name in RULES})
    ways["in reverse order"] = in_reverse_order()
    ways["without waits"] = observers(("blocking",), lambda function: lambda *terms: None)
    ways["frozen"] = all_frozen()
    print(json.dumps({"once": replayed(), **{way: replayed_with(exchanged) for way, exchanged in ways.items()}}))
