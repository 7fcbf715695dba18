"""Texts as people paste them: prompts, prefixes, cut-off ends, several documents, and what is no statistics."""

import json
from collections.abc import Callable
from pprint import pformat

import pytest
from dumps import Json, consumer, diagnosis_of, draining, internal, result_of, signs, stats
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.statistics.diagnose import Input, Result, diagnose
from dispatch_audit.pipeline.statistics.diagnosis import Diagnosis
from dispatch_audit.pipeline.statistics.reading.text import decoded
from dispatch_audit.pipeline.statistics.reading.walk import Walk
from dispatch_audit.pipeline.statistics.signs.sign import CERTAINTIES

HELD = stats(consumer("c1", unackedMessages=30, **draining(2, 7, 5)), consumer("c2"), msgInReplay=30, msgBacklog=60)
TEXT = json.dumps(HELD, indent=2)
INTERNAL = json.dumps(internal(waiting=True), indent=2)
TOPIC = "persistent://public/default/orders-partition-3"


def each_line(prefix: Callable[[int], str]) -> str:
    return "\n".join(prefix(number) + line for number, line in enumerate(TEXT.split("\n")))


def wrapped(text: str, width: int) -> str:
    """A text as a terminal shows it, and as it is copied from there."""
    return "\n".join(line[at : at + width] for line in text.split("\n") for at in range(0, max(len(line), 1), width))


PASTED = {
    "a prompt": f"user@host:~$ bin/pulsar-admin topics stats {TOPIC}\n{TEXT}\nuser@host:~$ ",
    "a fence": f"Here are the stats:\n```json\n{TEXT}\n```\nThanks!",
    "a log line": f"2025-06-15T15:08:00.123Z INFO [main] c.e.Poller{{id=3}} - stats: {TEXT}",
    "times": each_line(lambda n: f"2025-06-15 15:08:{n % 60:02} INFO  stats - "),
    "a container": each_line(lambda _: "broker-0  | "),
    "quoting": each_line(lambda _: "> "),
    "line numbers": each_line(lambda n: f"{n + 1}: "),
    "colours": f"\x1b[32m{TEXT}\x1b[0m",
    "spaces of a browser": TEXT.replace("  ", "\xa0 "),
    "carriage returns": TEXT.replace("\n", "\r\n"),
    "one line": json.dumps(HELD),
    "a map of topics": json.dumps({TOPIC: HELD}),
    "partitions": json.dumps({"metadata": {"partitions": 4}, "partitions": {TOPIC: HELD}}),
    "broker-stats": json.dumps({"public/default": {"0x0_0xf": {"persistent": {TOPIC: HELD}}}}),
    "its subscriptions": json.dumps(HELD["subscriptions"]),
    "one subscription": f'"ks" : {json.dumps(HELD["subscriptions"]["ks"], indent=2)},',
    "a topic and its statistics": f'"{TOPIC}": {TEXT},',
    "its name and one subscription": f'"ks" : {json.dumps(HELD["subscriptions"]["ks"], indent=2)},',
    "entries of jq": json.dumps([{"key": "ks", "value": HELD["subscriptions"]["ks"]}]),
    "a list of topics": json.dumps([{"topic": TOPIC, "stats": HELD}]),
    "a path of the API": f"$ curl -s localhost:8080/admin/v2/{TOPIC.replace('://', '/')}/stats\n{TEXT}",
    "from the middle on": TEXT[TEXT.index('"msgBacklog"') :],
    "a narrow terminal": wrapped(TEXT, 37),
    "a terminal, compact": wrapped(json.dumps(HELD), 80),
    "typographic quotes": "".join("\u201c\u201d"[at % 2] + part for at, part in enumerate(TEXT.split('"')))[1:],
    "Python": repr(HELD),
    "Python, printed prettily": pformat(HELD),
    "JSON within JSON": json.dumps({"log": TEXT}),
    "entities": TEXT.replace('"', "&quot;"),
    "numbers as text": json.dumps(HELD).replace(": 30,", ': "30",').replace("false", '"false"'),
}


@pytest.mark.parametrize("text", PASTED.values(), ids=PASTED.keys())
def test_the_answer_does_not_depend_on_how_it_was_pasted(text: str) -> None:
    plain, pasted = diagnosis_of(TEXT), diagnosis_of(text)

    assert pasted.headline == plain.headline
    assert [reason.shown for reason in pasted.reasons] == [reason.shown for reason in plain.reasons]


@pytest.mark.parametrize(
    "name",
    [
        "a prompt",
        "a map of topics",
        "partitions",
        "broker-stats",
        "a topic and its statistics",
        "a list of topics",
        "a path of the API",
    ],
)
def test_the_topic_is_the_one_that_a_key_or_command_names(name: str) -> None:
    assert diagnosis_of(PASTED[name]).history.topic == TOPIC


CONSUMERS = HELD["subscriptions"]["ks"]["consumers"]
PIECES = {
    "the list": json.dumps(CONSUMERS, indent=2),
    "its member": f'"consumers" : {json.dumps(CONSUMERS, indent=2)}',
    "one a line": "\n".join(map(json.dumps, CONSUMERS)),
    "after its command": f"$ pulsar-admin topics stats {TOPIC}|jq .subscriptions.ks.consumers\n{json.dumps(CONSUMERS)}",
}


@pytest.mark.parametrize("text", PIECES.values(), ids=PIECES.keys())
def test_consumers_alone_say_who_and_not_whether_entries_wait(text: str) -> None:
    diagnosis = diagnosis_of(text)

    assert (diagnosis.answer, signs(diagnosis)) == ("not_decidable", {"draining_holds_others": "compatible"})
    assert diagnosis.reasons[0].consumers == ("c1",)
    assert any("msgBacklog" in lack for lack in diagnosis.lacks)


def test_lines_that_grep_left_are_of_several_consumers() -> None:
    diagnosis = diagnosis_of("\n".join(f'        "availablePermits" : {permits},' for permits in (434, 0, -2)) + "\n")

    assert diagnosis.facts is not None
    assert [one.permits for one in diagnosis.facts.consumers] == [434, 0, -2]


def test_a_command_names_the_subscription_of_what_its_filter_left() -> None:
    history = diagnosis_of(PIECES["after its command"]).history
    assert (history.topic, history.subscription) == (TOPIC, "ks")


def test_counters_without_consumers_say_what_waits_and_how_to_see_who() -> None:
    counters = {name: value for name, value in HELD["subscriptions"]["ks"].items() if name != "consumers"}
    for text in (json.dumps(counters), json.dumps(counters, indent=2)[1:-1]):
        diagnosis = diagnosis_of(text)

        assert (diagnosis.answer, signs(diagnosis)) == ("not_decidable", {"nothing_moves": "compatible"})
        assert "30 entries wait at least" in diagnosis.reasons[0].shown
        assert any("pulsar-admin topics stats" in lack for lack in diagnosis.lacks)


def test_a_text_that_cannot_be_read_gets_the_commands_for_its_topic() -> None:
    with pytest.raises(TraceError) as error:
        result_of(f"TopicStats(msgRateIn=0.0, subscriptions=...) of {TOPIC}.")

    assert str(error.value).endswith(f"pulsar-admin topics stats {TOPIC}; pulsar-admin topics stats-internal {TOPIC}")


def test_one_file_may_hold_statistics_and_internal_statistics() -> None:
    diagnosis = diagnosis_of(f"{TEXT}\n$ bin/pulsar-admin topics stats-internal {TOPIC}\n{INTERNAL}")
    assert diagnosis.facts is not None
    assert diagnosis.facts.unread == 0


def test_what_follows_a_document_that_is_cut_off_is_read() -> None:
    cut = TEXT[: TEXT.index('"consumerName": "c2"')]
    diagnosis = diagnosis_of(f"{cut}\n...\n{INTERNAL}")

    assert diagnosis.facts is not None
    assert [one.name for one in diagnosis.facts.consumers] == ["c1"]
    assert diagnosis.facts.cursor is not None


def test_a_document_that_is_cut_off_says_where_and_what_is_missing() -> None:
    result = result_of(TEXT[: TEXT.index('"consumerName": "c2"')])
    line = TEXT[: TEXT.index('"consumerName": "c2"')].count("\n") + 1

    assert f"from line {line} on" in result.remarks[0]
    assert "the end of the dump" in result.diagnoses[0].lacks[0]
    assert signs(result.diagnoses[0]) == {"draining_holds_others": "compatible"}


def test_a_consumer_that_is_cut_off_after_its_counters_counts() -> None:
    text = json.dumps(stats(consumer("c1", availablePermits=-420), msgBacklog=60), indent=2)
    diagnosis = diagnosis_of(text[: text.index('"keyHashRangeArrays"') + 24])

    assert signs(diagnosis) == {"permits_not_returned": "compatible"}


DUMPS = [
    HELD,
    stats(consumer("c1", availablePermits=-420), consumer("c2", availablePermits=-17), msgBacklog=90),
    stats(consumer("c1", unackedMessages=30), consumer("c2", msgRateOut=3.5), msgInReplay=4000, msgBacklog=9000),
    stats(consumer("c1", unackedMessages=-4), consumer("c1", availablePermits=0, unackedMessages=9), msgBacklog=30),
    stats(consumer("c1", blockedConsumerOnUnackedMsgs=True, unackedMessages=12), msgBacklog=12, msgDelayed=12),
]


@examples(200)
@given(st.sampled_from(DUMPS), st.sampled_from([None, 2]), st.data())
def test_a_prefix_never_says_more_than_the_whole(dump: Json, indent: int | None, data: st.DataObject) -> None:
    text = json.dumps(dump, indent=indent)
    prefix = text[: data.draw(st.integers(0, len(text)))]
    whole = diagnosis_of(text)
    try:
        (found,) = result_of(prefix).diagnoses
    except TraceError:
        return

    said = {reason.name: reason for reason in whole.reasons}
    for reason in found.reasons:
        more = said[reason.name]
        assert set(reason.consumers) <= set(more.consumers)
        assert CERTAINTIES.index(reason.certainty) <= CERTAINTIES.index(more.certainty)
    assert found.answer in (whole.answer, "not_decidable")


REFUSED = {
    "other JSON": ('{"items": [{"name": "a"}]}', "1 JSON object without statistics of topics"),
    "no JSON": ("HTTP 404 Topic not found", "holds no JSON"),
    "an error of Pulsar": ('{"reason": "Topic not found"}', "without statistics of topics"),
    "HTML": ("<!DOCTYPE html>\n<html><body>Login {}</body></html>", "an HTML page"),
    "nothing": (" \n", "is empty"),
    "no subscription": ('{"subscriptions": {}}', "have no subscription"),
    "a beginning": (TEXT[:40], "without statistics of topics, and is cut off at line"),
    "braces": ("{" * 3000, "holds no JSON"),
    "nesting": ('{"a":' * 3000, "without statistics"),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_statistics_gets_one_clear_line(text: str, reason: str) -> None:
    with pytest.raises(TraceError) as error:
        result_of(text)

    assert reason in str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 3


@pytest.mark.parametrize("kind", ["Shared", "Failover", "Exclusive"])
def test_other_types_get_an_answer_that_needs_no_keys(kind: str) -> None:
    text = json.dumps(stats(consumer("c1", availablePermits=0, unackedMessages=30), type=kind, msgBacklog=500))
    diagnosis = diagnosis_of(text)

    assert signs(diagnosis) == {"no_permits": "proved"}
    assert "keySharedMode" not in " ".join(diagnosis.lacks)


def test_a_standby_of_failover_holds_nothing_up() -> None:
    active = consumer("a", unackedMessages=0, messageAckRate=3.0)
    document = stats(active, consumer("b", availablePermits=0), type="Failover", activeConsumerName="a")

    assert diagnosis_of(document).reasons == ()


def test_an_empty_subscription_is_idle() -> None:
    empty = {"subscriptions": {"ks": {"msgBacklog": 0, "msgInReplay": 0, "consumers": [], "type": "None"}}}
    assert diagnosis_of(empty).answer == "idle"


def test_a_value_of_another_type_is_left_out_and_named() -> None:
    document = stats(consumer("c1", availablePermits="many"), msgBacklog=7)
    diagnosis = diagnosis_of(document)

    assert diagnosis.facts is not None
    assert diagnosis.facts.consumers[0].permits is None
    assert any("availablePermits" in one for one in diagnosis.lacks)


@pytest.mark.parametrize("changed", [{"lastConsumedTimestamp": 10**18}, {"msgBacklog": 2**63}, {"msgInReplay": "1e9"}])
def test_numbers_that_cannot_be_are_left_out_and_named(changed: Json) -> None:
    diagnosis = diagnosis_of(stats(consumer("c1"), **changed))
    assert any(next(iter(changed)) in one for one in diagnosis.lacks)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_files_of_other_encodings_are_read(encoding: str) -> None:
    assert json.loads(decoded(TEXT.encode(encoding), "stats.txt")) == HELD


def test_internal_statistics_alone_say_what_is_missing() -> None:
    diagnosis = diagnosis_of(INTERNAL)
    assert (diagnosis.answer, diagnosis.lacks) == ("not_decidable", ("topics stats",))


def files(*named: tuple[str, Json]) -> Result:
    return diagnose([Input(name, json.dumps(document)) for name, document in named])


def of(result: Result) -> list[Diagnosis]:
    return sorted(result.diagnoses, key=lambda one: one.history.topic)


def test_moments_are_ordered_by_the_times_in_names() -> None:
    earlier, later = stats(consumer("c1"), msgBacklog=9), stats(consumer("c1", msgOutCounter=104), msgBacklog=5)
    (found,) = files(("stats-20250615T150810Z.json", later), ("stats-20250615T150800Z.json", earlier)).diagnoses

    assert found.facts is not None
    assert found.facts.movement is not None
    assert (found.facts.movement.seconds, found.facts.movement.sent, found.facts.movement.backlog) == (10.0, 4, -4)


def test_two_topics_with_a_subscription_of_one_name_are_no_moments_of_one() -> None:
    result = files(("stats-1.json", stats(consumer("c1"))), ("stats-2.json", stats(consumer("d1"))))
    assert len(result.diagnoses) == 2


@pytest.mark.parametrize(
    ("name", "before", "source", "exact"),
    [
        ("stats-1750000080.json", "", "name", True),
        ("stats-20250615T150800Z.json", "", "name", True),
        ("stats-2025-06-15_15-08-00.json", "", "name", False),
        ("stats.json", "2025-06-15T18:08:00+03:00 $ pulsar-admin topics stats t\n", "content", True),
        ("stats.json", "Date: Sun, 15 Jun 2025 15:08:00 GMT\n", "content", True),
        ("stats.json", "", "age", False),
    ],
)
def test_the_time_of_a_dump_is_that_of_its_name_its_content_or_its_age(
    name: str, before: str, source: str, exact: bool
) -> None:
    (found,) = diagnose([Input(name, before + TEXT, 1750000080000)]).diagnoses
    clock = found.history.moments[-1].clock

    assert (clock.at_ms, clock.source, clock.exact) == (1750000080000, source, exact)


def test_partitions_are_handed_on_one_by_one() -> None:
    partitions = f'{{"{TOPIC}": {json.dumps(HELD)}, "persistent://public/default/next": {{'
    documents = Walk(f'{{"partitions": {partitions}').documents()

    # What follows is not read yet.
    assert next(documents).place.topic == TOPIC


def test_a_poll_of_a_namespace_is_read_by_the_lines_before_each_document() -> None:
    topics = {f"persistent://public/default/{name}": stats(consumer(name), msgBacklog=7) for name in ("a", "b")}
    polls = [
        (f"stats-1750000080-{number}.json", f"stats {topic}\n{json.dumps(one)}\nstats-internal {topic}\n{INTERNAL}\n")
        for number, (topic, one) in enumerate(topics.items())
    ]
    result = diagnose([Input(name, text) for name, text in polls])

    assert sorted(one.history.topic for one in result.diagnoses) == sorted(topics)
    assert all(one.facts is not None and one.facts.unread == 0 for one in result.diagnoses)
