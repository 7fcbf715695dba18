"""Signs name the known bugs that leave them, of those that the broker can have, with the remedy for its branch."""

import pytest
from dumps import Json, consumer, diagnosis_of, draining, internal, stats

STALE = stats(consumer("c1", unackedMessages=0, **draining(35, 0, 2)), consumer("c2"), msgInReplay=9, msgBacklog=9)
BLOCKED = stats(consumer("c1", blockedConsumerOnUnackedMsgs=True), consumer("c2"))
NEGATIVE = stats(consumer("c1", unackedMessages=-4), consumer("c2"))
LEAK = stats(consumer("c1", unackedMessages=400), consumer("c2"), msgBacklog=143)
PARKED = (stats(consumer("c1"), msgInReplay=9, msgBacklog=9), internal(waiting=True))
NO_READ = (stats(consumer("c1"), msgBacklog=60), internal(read="3:40", waiting=False))


@pytest.mark.parametrize(
    ("documents", "version", "bugs"),
    [
        ((STALE,), "4.0.5", ("#23845",)),
        ((STALE,), "4.1.0", ("#23845",)),
        ((STALE,), "4.0.7", ()),
        ((BLOCKED,), "3.0.2", ("#22657",)),
        ((BLOCKED,), "3.0.10", ()),
        ((NEGATIVE,), "4.2.4", ("#24096",)),
        ((LEAK,), "4.0.10", ("F10", "#25581")),
        ((LEAK,), "4.0.11", ("F10",)),
        (PARKED, "4.0.5", ("#23845", "#21554")),
        (PARKED, "4.0.12", ("#21554",)),
        (PARKED, "4.0.13", ()),
        (NO_READ, "4.0.12", ("#26454",)),
    ],
)
def test_a_bug_is_named_to_brokers_that_can_have_it(
    documents: tuple[Json, ...], version: str, bugs: tuple[str, ...]
) -> None:
    assert diagnosis_of(*documents, version=version).reasons[0].bugs == bugs


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        ("4.0.5", "Upgrade to 4.0.7 or later (4.1.1 on 4.1, 4.2.0 on 4.2). Until then disconnect all consumers"),
        ("4.1.0", "Upgrade to 4.1.1 or later"),
        (None, "Fixed in 4.0.7, 4.1.1, 4.2.0. Until then disconnect all consumers"),
        # Not this bug, so what helps in general.
        ("4.0.8", "Disconnect all consumers of the subscription at once, or unload the topic."),
    ],
)
def test_the_remedy_is_that_of_the_users_own_branch(version: str | None, remedy: str) -> None:
    assert diagnosis_of(STALE, version=version).reasons[0].remedy.startswith(remedy)


def test_a_release_older_than_all_profiles_is_no_error() -> None:
    assert diagnosis_of(NEGATIVE, version="2.10.4").reasons[0].name == "unacknowledged_below_zero"


def test_positions_of_joining_stand_in_for_a_map_that_is_absent() -> None:
    joined = {"drainingHashesCount": None, "readPositionWhenJoining": "3:40"}
    document = stats(consumer("c1", unackedMessages=1), consumer("c2", **joined), msgBacklog=60)
    empty = stats(
        consumer("c1", unackedMessages=1), consumer("c2", **joined), msgBacklog=60, consumersAfterMarkDeletePosition={}
    )
    cursor = internal(read="3:41", waiting=False, have=False)

    assert diagnosis_of(document, cursor, version="3.0.7").reasons[0].name == "recently_joined"
    assert diagnosis_of(empty, cursor, version="3.0.7").reasons[0].name != "recently_joined"


def test_recently_joined_consumers_are_f5_of_the_dispatcher_that_has_them() -> None:
    document = stats(
        consumer("c1", unackedMessages=1),
        consumer("c2"),
        consumersAfterMarkDeletePosition={"c2": "3:40"},
        msgBacklog=60,
    )
    reason = diagnosis_of(document, internal(read="3:41", waiting=False, have=False), version="3.0.7").reasons[0]

    assert (reason.name, reason.consumers, reason.bugs) == ("recently_joined", ("c1",), ("F5",))
    assert "follows 3:9" in reason.shown
