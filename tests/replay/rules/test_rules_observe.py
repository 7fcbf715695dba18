"""Rules and observers of waits read the dispatcher: asked twice, left out or in another order they change nothing else.

The replays run in the interpreter, in a process of their own, where the functions of the kernel can be exchanged.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
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
    "check_unacked": {"unacked_limit"},
    "check_first_delivery": {"first_delivery_order"},
}
"""By the function of the kernel, the rules that it checks."""

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
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_asked_twice_says_the_same_twice(rule: str, replays: dict[str, Any]) -> None:
    assert replays[f"twice {rule}"] == replays["once"]


@pytest.mark.heavy
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_left_out_is_missed_by_nothing_else(rule: str, replays: dict[str, Any]) -> None:
    assert _without(replays[f"without {rule}"], RULES[rule]) == _without(replays["once"], RULES[rule])


@pytest.mark.heavy
def test_rules_may_be_asked_in_reverse_order(replays: dict[str, Any]) -> None:
    assert replays["in reverse order"] == replays["once"]


@pytest.mark.heavy
def test_observers_get_by_with_a_state_that_refuses_writes(replays: dict[str, Any]) -> None:
    assert replays["frozen"] == replays["once"]
    assert replays["frozen calls"] > 1000


def _without(tables: Tables, rules: set[str]) -> Tables:
    """The tables without the findings of some rules, and without the figures that sum up all findings."""
    aside = ("order_verdict", "dispatches_judged", "finding_id")
    found = {}
    for table, rows in tables.items():
        columns = [json.loads(row) for row in rows]
        kept = [row for row in columns if row.get("rule") not in rules]
        texts = ({name: value for name, value in row.items() if name not in aside} for row in kept)
        found[table] = sorted(json.dumps(row, sort_keys=True) for row in texts)
    return found


if __name__ == "__main__":
    from local_replay import AUTO_SPLIT, tables_of
    from test_kernel_against_simple import random_schedule
    from test_uncompiled import _KINDS, _LIMITS, _blocked

    from dispatch_audit.pipeline.replay.blocking import monitor
    from dispatch_audit.pipeline.replay.dispatcher import dispatcher, kernel
    from dispatch_audit.pipeline.replay.rules import dispatch_rules
    from dispatch_audit.pipeline.replay.state.output import FINDINGS, Output
    from dispatch_audit.pipeline.replay.state.state import State

    Rule = Callable[..., None]

    def replayed() -> Tables:
        schedule = random_schedule(seed=3, length=250)
        found = [tables_of(schedule.log.rows, settings=_LIMITS)]
        found += [tables_of(_blocked().rows, version=version, settings=_LIMITS) for version in _KINDS]
        tables: Tables = {}
        for number, of_one in enumerate(found):
            for table, rows in of_one.items():
                texts = (json.dumps({**row, "replay": number}, sort_keys=True, default=str) for row in rows)
                tables.setdefault(table, []).extend(texts)
        return {table: sorted(rows) for table, rows in tables.items()}

    def home_of(rule: str) -> ModuleType:
        return kernel if rule == "check_owner" else dispatch_rules

    def twice(rule: Rule) -> Rule:
        def asked(state: State, out: Output, *terms: Any) -> None:
            first = int(out.filled[FINDINGS])
            rule(state, out, *terms)
            second = int(out.filled[FINDINGS])
            rule(state, out, *terms)
            third = int(out.filled[FINDINGS])
            assert out.findings[first:second].tobytes() == out.findings[second:third].tobytes()
            out.filled[FINDINGS] = second

        return asked

    @contextmanager
    def in_reverse_order() -> Iterator[None]:
        asked: list[tuple[Rule, tuple[Any, ...]]] = []
        check_dispatch = kernel.check_dispatch

        def all_reversed(*terms: Any) -> None:
            check_dispatch(*terms)
            for rule, given in reversed(asked):
                rule(*given)
            asked.clear()

        def put_off(rule: Rule) -> Rule:
            return lambda *given: asked.append((rule, given))

        rules = {name: put_off(getattr(dispatch_rules, name)) for name in RULES if name != "check_owner"}
        with patch.multiple(dispatch_rules, **rules), patch.object(kernel, "check_dispatch", all_reversed):
            yield

    print(json.dumps({"once": replayed()}))  # noqa: T201 - its output
