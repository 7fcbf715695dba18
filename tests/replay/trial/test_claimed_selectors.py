"""A wrong selector in trace.json is one finding; what the broker did is judged by the selector that the rows show."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Final

import pyarrow.compute as pc
import pytest
from local_replay import Columns, Tables, recorded_logs, tables_of_batches, tables_of_logs
from recorded import ALL, RECORDINGS
from recorded_batches import recorded_batches
from trace_variants import VARIANTS, paired

HASHING: Final = "subscriptionKeySharedUseConsistentHashing"
POINTS: Final = "subscriptionKeySharedConsistentHashingReplicaPoints"
CLASSIC: Final = "subscriptionKeySharedUseClassicPersistentImplementation"
WRONG_SELECTOR: Final = "../effective_settings/wrong-selector-4.0.8"

Claim = Mapping[str, object]
"""The arguments by which a trace claims something else than it has."""
CLAIMS: Final[Mapping[str, Callable[[str], Claim]]] = {
    "the other selector": lambda name: {"changed": {HASHING: setting(name, HASHING) is False}},
    "other points": lambda name: {"changed": {POINTS: 100 if setting(name, POINTS) == 20 else 20}},
    "the other dispatcher": lambda name: {"changed": {CLASSIC: setting(name, CLASSIC) is not True}},
    "another release": lambda name: {"version": "4.0.8" if name.endswith("-3.0.7") else "3.0.7"},
}
# Without snapshots dispatches show the selector, whichever side of them is there.
EVIDENCE: Final = ("whole", "no snapshot", "only starts", "only ends of dispatches and acks")
# Joins and leaves by the dozen under each ring and under AUTO_SPLIT, consumers of one name, keyless messages; and which
# settings a whole trace shows to be wrong, where a finding has to name them.
SHOWN: Final[Mapping[str, Mapping[str, list[str]]]] = {
    "heavy-churn-1-4.0.8": {},
    "heavy-churn-1-3.0.7": {"another release": ["pulsar_version"]},
    "join-leave-1-4.0.8": {
        "the other selector": [HASHING],
        "other points": [POINTS],
        "the other dispatcher": [CLASSIC],
        "another release": ["pulsar_version"],
    },
    "join-leave-1-4.0.8-classic": {"the other dispatcher": [CLASSIC], "another release": ["pulsar_version"]},
    "join-leave-autosplit-4.0.8": {"the other dispatcher": [CLASSIC]},
    "join-leave-autosplit-4.0.8-classic": {"the other dispatcher": [CLASSIC]},
    "equal-names-4.0.8": {},
    "ordering-and-null-key-4.0.8": {},
    "many-consumers-4.0.8": {"other points": [POINTS]},
}
# Without snapshots the gate takes each dispatcher and each selector once.
WITHOUT_SNAPSHOTS: Final = ("heavy-churn-1-4.0.8", "heavy-churn-1-3.0.7", "join-leave-autosplit-4.0.8-classic")


def setting(name: str, of: str) -> object:
    return json.loads((RECORDINGS / name / "trace.json").read_text())["settings"].get(of)


def broken(tables: Tables, *severities: str) -> Counter[tuple[str, int]]:
    """Rule and seq of the findings that break the contract."""
    wanted = severities or ("violation",)
    return Counter((row["rule"], row["seq"]) for row in tables["violations"] if row["severity"] in wanted)


def contradicted(tables: Tables) -> list[str]:
    return [json.loads(row["detail"])["setting"] for row in tables["violations"] if row["rule"] == "settings_mismatch"]


def test_a_recording_with_a_changed_default_has_one_finding_and_the_known_bug_that_is_in_it() -> None:
    batches = recorded_batches(WRONG_SELECTOR)
    found = tables_of_batches(WRONG_SELECTOR, batches)
    right = tables_of_batches(WRONG_SELECTOR, batches, changed={HASHING: False})
    severities = Counter((row["rule"], row["severity"]) for row in found["violations"])
    assert severities.pop(("settings_mismatch", "not_provable")) == 1
    assert severities.keys() == {("early_duplicate", "known_bug")}
    assert broken(found, "known_bug") == broken(right, "known_bug")
    held = [row for row in found["violations"] if "still held it" in row["explanation"]]
    assert len(held) == 28
    assert found["assignments"] == right["assignments"]
    assert found["draining"] == right["draining"]


def test_the_finding_names_the_setting_its_value_and_what_is_shown_where() -> None:
    found = tables_of_batches(WRONG_SELECTOR, recorded_batches(WRONG_SELECTOR))
    (row,) = [row for row in found["violations"] if row["rule"] == "settings_mismatch"]
    assert json.loads(row["detail"]) == {
        "setting": HASHING,
        "claimed": "true",
        "claimed_by": "trace.json",
        "claimed_seq": None,
        "shown": "false",
    }
    assert row["explanation"].startswith(f"trace.json claims {HASHING} = true, but the broker shows false at")
    assert row["explanation"].endswith("owners are judged by AUTO_SPLIT (pulsar-4.0.7) from the start")
    assert row["evidence"][0].startswith(f"seq {row['seq']}: a snapshot lists 1 consumer with")


def _cases() -> Iterator[Any]:
    """A name, an evidence and a claim each, those with the same rows one after the other."""
    for name, evidence, claim in product(SHOWN, EVIDENCE, CLAIMS):
        # One side of dispatches shows no other selector than both do. Of whole recordings the gate takes the claims of
        # which it knows what is shown.
        in_gate = (
            claim in SHOWN[name] if evidence == "whole" else evidence == "no snapshot" and name in WITHOUT_SNAPSHOTS
        )
        marks = [pytest.mark.recordings, *([] if in_gate else [pytest.mark.slow])]
        yield pytest.param(name, evidence, claim, marks=marks)


def _audited(name: str, evidence: str, **claimed: Any) -> Tables:
    """The tables of a recording of which only some evidence is there."""
    if evidence.startswith("only"):
        logs, skew_us = VARIANTS[evidence](recorded_logs(name))
        return tables_of_logs(name, logs, skew_us=skew_us, **claimed)
    batches = recorded_batches(name)
    if evidence == "no snapshot":
        batches = [batch.filter(pc.not_equal(batch["event"], "stats")) for batch in batches]
    return tables_of_batches(name, batches, **claimed)


@lru_cache(maxsize=1)
def _right(name: str, evidence: str) -> Tables:
    """The same under what the trace has, which all claims are held against."""
    return _audited(name, evidence)


@pytest.mark.parametrize(("name", "evidence", "claim"), list(_cases()))
def test_a_wrong_claim_breaks_nothing_that_the_right_one_does_not(name: str, evidence: str, claim: str) -> None:
    right, wrong = _right(name, evidence), _audited(name, evidence, **CLAIMS[claim](name))
    assert broken(wrong) - broken(right, "violation", "known_bug") == Counter()
    assert not contradicted(right)
    assert len(contradicted(wrong)) <= 1
    if evidence == "whole" and claim in SHOWN[name]:
        assert contradicted(wrong) == SHOWN[name][claim]


def test_what_is_chosen_is_there() -> None:
    assert set(SHOWN) <= set(ALL)
    assert set(WITHOUT_SNAPSHOTS) <= set(SHOWN)


@pytest.mark.recordings
@pytest.mark.parametrize(
    ("claim", "snapshots"),
    # Each claim once in the gate; a ring that nothing explains is looked for in every snapshot, which takes longest.
    [
        pytest.param(claim, snapshots, marks=[pytest.mark.slow] if snapshots == (at % 2 == 0) else [])
        for at, claim in enumerate(CLAIMS)
        for snapshots in (True, False)
    ],
)
def test_a_dispatch_to_a_wrong_consumer_is_still_found(claim: str, snapshots: bool) -> None:
    name = "join-leave-1-4.0.8"
    logs = [[row for row in log if snapshots or row["event"] != "stats"] for log in recorded_logs(name)]
    sides = [pair for pair in paired(logs) if pair[0]["event"] == "dispatch"]
    start, end = sides[2 * len(sides) // 3]
    other = next(
        s["consumer"] for s, _ in reversed(sides[: sides.index((start, end))]) if s["consumer"] != start["consumer"]
    )

    def misrouted(row: Columns) -> Columns:
        return {**row, "consumer": other} if row["seq"] in (start["seq"], end["seq"]) else row

    changed = [[misrouted(row) for row in log] for log in logs]
    before, found = (broken(tables_of_logs(name, rows, **CLAIMS[claim](name))) for rows in (logs, changed))
    assert ("ownership", start["seq"]) not in before
    assert found[("ownership", start["seq"])] == 1
    assert not [broken for broken in found - before if broken[0] == "assignment_mismatch"]


def renamed(logs: Sequence[Sequence[Columns]]) -> list[list[Columns]]:
    """The rows of a broker whose ring hashes other texts than any known one: as if its clients had other names."""
    return [
        [{**row, "consumer_name": f"{row['consumer_name']}'"} if row.get("consumer_name") else row for row in log]
        for log in logs
    ]


@pytest.mark.recordings
@pytest.mark.parametrize(
    ("name", "snapshots"),
    [
        ("heavy-churn-1-4.0.8", False),
        pytest.param("heavy-churn-1-4.0.8-classic", True, marks=pytest.mark.slow),
        pytest.param("heavy-churn-1-4.0.8", True, marks=pytest.mark.slow),
        pytest.param("heavy-churn-1-4.0.8-classic", False, marks=pytest.mark.slow),
    ],
)
def test_nothing_about_owners_is_provable_where_no_known_selector_explains_the_rows(name: str, snapshots: bool) -> None:
    logs = [[row for row in log if snapshots or row["event"] != "stats"] for log in renamed(recorded_logs(name))]
    found = tables_of_logs(name, logs)
    (row,) = [row for row in found["violations"] if row["rule"] == "settings_mismatch"]
    assert "what depends on the owner of a hash is not provable; check " in row["explanation"]
    assert row["explanation"].endswith("record snapshots with key_hash_ranges")
    assert broken(found) - broken(tables_of_logs(name, recorded_logs(name)), "violation", "known_bug") == Counter()
    (coverage,) = found["coverage"]
    assert coverage["dispatches_undecided"] > 1_000


def test_a_recording_says_what_it_claims_and_its_settings_are_compared() -> None:
    name = "join-leave-autosplit-4.0.8"
    found = tables_of_batches(name, recorded_batches(name))
    (metrics,) = [row for row in found["metrics"] if row["rule"] == "settings_mismatch"]
    assert (metrics["checked"], metrics["not_provable"]) == (1, 0)
    without = [batch.filter(pc.not_equal(batch["event"], "stats")) for batch in recorded_batches(name)]
    (metrics,) = [row for row in tables_of_batches(name, without)["metrics"] if row["rule"] == "settings_mismatch"]
    assert metrics["checked"] == 0
