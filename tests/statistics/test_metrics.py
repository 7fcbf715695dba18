"""Metrics of a broker, as it, Prometheus, `promtool` and Grafana print them, are diagnosed as statistics are."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.statistics.diagnose import Input, Result, diagnose
from dispatch_audit.pipeline.statistics.diagnosis import Diagnosis

ROOT = Path(__file__).resolve().parents[1] / "data" / "metrics"
FILES = sorted(path.stem for path in ROOT.glob("*.txt"))
TOPIC = "persistent://public/default/orders"
LABELS = {"cluster": "c", "namespace": "public/default", "topic": TOPIC, "subscription": "billing"}
BEGIN_S = 1_750_000_000
CAUSES = {
    "hung-consumer": ("look_ahead_limit", ("hung",)),
    "paused-consumer": ("permits_not_returned", ("paused",)),
    "unacked-limit-subscription": ("subscription_limit", ()),
}


def of(*texts: str, version: str | None = None) -> Result:
    return diagnose([Input(f"{at}.txt", text) for at, text in enumerate(texts)], version)


def only(*texts: str, version: str | None = None) -> Diagnosis:
    (diagnosis,) = of(*texts, version=version).diagnoses
    return diagnosis


def scrapes(name: str) -> list[str]:
    """Each answer of a recorded broker, with the line in front of it."""
    return re.split(r"(?=^\S+Z \$)", (ROOT / f"{name}.txt").read_text(), flags=re.MULTILINE)[1:]


def vector(values: dict[str, float], at_s: float = BEGIN_S, **labels: str) -> str:
    """What Prometheus answers to a query at one time."""
    of = LABELS | labels
    found = [{"metric": of | {"__name__": name}, "value": [at_s, str(value)]} for name, value in values.items()]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": found}})


def matrix(values: dict[str, Sequence[float]], step_s: int = 60) -> dict[str, Any]:
    """What Prometheus answers to a query over a range."""
    found = [
        {
            "metric": LABELS | {"__name__": name},
            "values": [[BEGIN_S + at * step_s, str(value)] for at, value in enumerate(series)],
        }
        for name, series in values.items()
    ]
    return {"status": "success", "data": {"resultType": "matrix", "result": found}}


# Replay is at the limit of two consumers from the fourth minute on, and nothing is sent.
STALLED: dict[str, Sequence[float]] = {
    "pulsar_subscription_back_log": [50, 900, 4200, 9000, 9500, 9900],
    "pulsar_subscription_in_replay": [0, 700, 3000, 4000, 4000, 4000],
    "pulsar_subscription_unacked_messages": [10, 10, 10, 10, 10, 10],
    "pulsar_subscription_consumers_count": [2] * 6,
    "pulsar_subscription_msg_rate_out": [90.5, 80.0, 30.0, 0, 0, 0],
    "pulsar_out_messages_total": [100, 5000, 6000, 6000, 6000, 6000],
}


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_broker_is_answered_by_its_state(name: str) -> None:
    state, version = name.rsplit("-", 1)
    diagnosis = only((ROOT / f"{name}.txt").read_text(), version=version)

    assert len(diagnosis.history.moments) == 3
    assert diagnosis.history.topic == TOPIC
    if state not in CAUSES:
        assert not diagnosis.reasons
        assert diagnosis.answer in ("flowing", "idle")
        return
    sign, consumers = CAUSES[state]
    assert diagnosis.answer == "held_up"
    assert (diagnosis.reasons[0].name, diagnosis.reasons[0].consumers) == (sign, consumers)
    assert "it stands in each dump from 2026-11-28" in diagnosis.reasons[0].since


@pytest.mark.parametrize("name", FILES)
def test_one_answer_of_a_broker_names_the_same_cause_or_says_what_decides(name: str) -> None:
    state, version = name.rsplit("-", 1)
    for text in scrapes(name):
        diagnosis = only(text, version=version)
        if state not in CAUSES:
            assert not diagnosis.is_alarm
        elif diagnosis.reasons:
            assert diagnosis.reasons[0].name == CAUSES[state][0]
            assert diagnosis.answer == "held_up" or diagnosis.reasons[0].decide


def test_what_a_terminal_wraps_is_read() -> None:
    (text,) = scrapes("hung-consumer-4.2.4")[-1:]
    for width in (80, 143):
        wrapped = re.sub(rf"(.{{{width}}})(?=.)", r"\1\n", text)
        assert only(wrapped).facts == only(text).facts


def test_a_range_says_when_it_began() -> None:
    diagnosis = only(json.dumps(matrix(STALLED), indent=1))
    reason = diagnosis.reasons[0]

    assert (diagnosis.answer, reason.name) == ("held_up", "look_ahead_limit")
    assert "from 2025-06-15 15:09:40.000 on, and not in that of 2025-06-15 15:08:40.000" in reason.since
    assert any("pulsar-admin topics stats persistent://public/default/orders" in lack for lack in diagnosis.lacks)


def test_answers_to_several_queries_are_one_moment() -> None:
    last = {name: series[-1] for name, series in STALLED.items()}
    texts = [
        f"$ curl -s 'http://p:9090/api/v1/query?query={name}'\n{vector({name: value}, BEGIN_S + at)}"
        for at, (name, value) in enumerate(last.items())
    ]
    diagnosis = only("\n".join(texts))

    assert len(diagnosis.history.moments) == 1
    assert diagnosis.facts is not None
    assert (diagnosis.facts.subscription.backlog, diagnosis.facts.number) == (9900, 2)
    assert diagnosis.reasons[0].name == "look_ahead_limit"


def test_a_series_without_a_name_has_that_of_the_query_in_front_of_it() -> None:
    answer = json.loads(vector({"pulsar_subscription_back_log": 9}))
    del answer["data"]["result"][0]["metric"]["__name__"]
    diagnosis = only(
        f"$ curl 'http://p:9090/api/v1/query?query=max(pulsar_subscription_back_log)'\n{json.dumps(answer)}"
    )

    assert diagnosis.facts is not None
    assert diagnosis.facts.subscription.backlog == 9


def printed(name: str, before: str, points: Sequence[str]) -> str:
    labels = ",".join(f'{key}="{value}"' for key, value in LABELS.items())
    return f"{name}{{{labels}}}{before}" + "\n".join(points)


FORMS = {
    "promtool": lambda name, series: printed(
        name, " =>\n", [f"{value} @[{BEGIN_S + at * 60}]" for at, value in enumerate(series)]
    ),
    "a page": lambda name, series: printed(
        name, "\t", [f"{value} @{BEGIN_S + at * 60}.000" for at, value in enumerate(series)]
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_other_programs_print_the_same_range(form: str) -> None:
    text = "\n".join(FORMS[form](name, series) for name, series in STALLED.items())
    assert only(text).reasons == only(json.dumps(matrix(STALLED))).reasons


def test_frames_of_grafana_are_read() -> None:
    times = [(BEGIN_S + at * 60) * 1000 for at in range(6)]
    frames = [
        {
            "schema": {"fields": [{"name": "Time"}, {"name": "Value", "labels": {"__name__": name, **LABELS}}]},
            "data": {"values": [times, list(series)]},
        }
        for name, series in STALLED.items()
    ]
    text = json.dumps({"results": {"A": {"status": 200, "frames": frames}}})

    assert only(text).reasons == only(json.dumps(matrix(STALLED))).reasons


def test_a_moment_when_nothing_was_sent_proves_nothing_without_consumers() -> None:
    quiet = {"pulsar_subscription_back_log": 500, "pulsar_subscription_msg_rate_out": 0.0}
    named = {**quiet, "pulsar_subscription_consumers_count": 2}

    assert only(vector(quiet)).answer == only(vector(named)).answer == "not_decidable"
    assert only(vector({**named, "pulsar_subscription_last_consumed_timestamp": (BEGIN_S - 70) * 1000})).is_alarm
    assert not only(vector({**named, "pulsar_subscription_last_consumed_timestamp": (BEGIN_S - 30) * 1000})).is_alarm
    assert only(vector({**quiet, "pulsar_subscription_consumers_count": 0})).answer == "no_consumer"
    assert only(vector({"pulsar_subscription_back_log": 0})).answer == "idle"


def test_a_counter_that_begins_anew_is_no_standstill() -> None:
    values = {**STALLED, "pulsar_out_messages_total": [9000, 9100, 9200, 9300, 9400, 20]}
    diagnosis = only(json.dumps(matrix(values)))

    assert diagnosis.facts is not None
    assert diagnosis.facts.movement is not None
    assert diagnosis.facts.movement.sent is None


def test_partitions_are_topics_of_their_own() -> None:
    text = "\n".join(vector({"pulsar_subscription_back_log": 5}, partition=str(number)) for number in (0, 1))
    assert {one.history.topic for one in of(text).diagnoses} == {f"{TOPIC}-partition-{number}" for number in (0, 1)}


def test_metrics_and_statistics_of_a_topic_are_no_two_moments() -> None:
    stats = {"subscriptions": {"billing": {"msgBacklog": 3, "type": "Key_Shared", "msgOutCounter": 9, "consumers": []}}}
    result = of(json.dumps({TOPIC: stats}), vector({"pulsar_subscription_back_log": 3}))

    assert len(result.diagnoses) == 2
    assert all(len(one.history.moments) == 1 for one in result.diagnoses)


def test_metrics_of_namespaces_get_one_line() -> None:
    with pytest.raises(TraceError) as error:
        of('pulsar_subscription_delayed{cluster="c",namespace="public/default"} 0\n')

    assert "do not name subscriptions" in str(error.value)
    assert "\n" not in str(error.value)
