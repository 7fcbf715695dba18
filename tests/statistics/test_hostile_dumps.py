"""Dumps with values that cannot be: they are answered without them, or refused in one line."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from dumps import Json, consumer, draining, internal, stats
from test_metrics import STALLED, matrix

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.statistics.diagnose import Input, diagnose
from dispatch_audit.pipeline.statistics.output.as_json import json_diagnoses

WHOLE = stats(
    consumer("c1", unackedMessages=30, **draining(2, 7, 5)),
    consumer("c2", readPositionWhenJoining="3:4"),
    msgInReplay=30,
    msgBacklog=60,
    consumersAfterMarkDeletePosition={"c2": "3:4"},
    dispatchThrottledMsgEventsByTopicLimit=0,
)
POSITIONS = internal(waiting=True) | {"ledgers": [{"ledgerId": 3, "entries": 0}]}
VALUES: dict[str, Any] = {
    "null": None,
    "text": "many",
    "empty text": "",
    "number as text": "7",
    "fraction": 0.5,
    "huge": 10**30,
    "below zero": -(2**63),
    "flag": True,
    "list": [1, [2]],
    "object": {"a": {"b": 1}},
    "infinite": float("inf"),
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields where each value of a document stands."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from places(inner, (*path, key))


def changed(document: Json, path: tuple[Any, ...], value: Any) -> Json:
    made = copy.deepcopy(document)
    holder = made
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return made


def is_answered(*texts: str) -> None:
    """Fails unless the texts are diagnosed, or refused in one line."""
    inputs = [Input(f"stats-{1_750_003_600 + 10 * at}.json", text) for at, text in enumerate(texts)]
    said = ""
    try:
        json_diagnoses(diagnose(inputs))
    except TraceError as error:
        said = str(error)
    assert "\n" not in said


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_any_value_may_be_of_another_type(value: Any) -> None:
    for path in places(WHOLE):
        is_answered(json.dumps(changed(WHOLE, path, value)), json.dumps(POSITIONS))
    for path in places(POSITIONS):
        is_answered(json.dumps(WHOLE), json.dumps(changed(POSITIONS, path, value)))


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_any_value_of_an_answer_of_prometheus_may_be_of_another_type(value: Any) -> None:
    answer = matrix({name: series[:2] for name, series in list(STALLED.items())[:2]})
    for path in places(answer):
        is_answered(json.dumps(changed(answer, path, value)))


@pytest.mark.parametrize("opening", ['{"a":', "[", '{"subscriptions":', '{"consumers":[', '"a" : ['])
def test_deep_nesting_is_one_line(opening: str) -> None:
    is_answered(opening * 20_000)
    is_answered(json.dumps(WHOLE) + opening * 20_000)


def test_millions_of_digits_are_one_line() -> None:
    is_answered('{"subscriptions":{"ks":{"consumers":[],"msgBacklog":' + "9" * 1_000_000 + "}}}")
    is_answered('pulsar_subscription_back_log{topic="t",subscription="s"} ' + "9" * 1_000_000)
