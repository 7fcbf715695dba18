"""What a profile inherits, and what falls away."""

from typing import Any

import pytest
from pydantic import ValidationError

from dispatch_audit.pipeline.contract.exceptions import EXCEPTIONS
from dispatch_audit.pipeline.contract.inheritance import resolved
from dispatch_audit.pipeline.contract.profile import Profile
from dispatch_audit.pipeline.contract.rules import RULES
from dispatch_audit.pipeline.errors import DispatchAuditError

ROOT: dict[str, Any] = {
    "from_version": "1.0.0",
    "to_version": "1.0.9",
    "dispatcher": "draining",
    "has_classic": False,
    "keyless": "none_key",
    "ring_collision": "incumbent_keeps",
    "ring_point_text": "name_nul_index_nul_i",
    "exclusive_gap_delivery": True,
    "draining_return": "eager",
    "mark_delete_releases": "any",
    "look_ahead_at_the_end": "any",
    "reads_past_replay": False,
    "acks_release_late": False,
    "unwritable_takes_nothing": False,
    "hash": {"consistent_hashing": "raw", "auto_split": "raw", "exclusive": "raw"},
    "settings": {"numIOThreads": 4, "delayedDeliveryEnabled": True},
}


def profile(name: str, **files: dict[str, Any]) -> Profile:
    return Profile(**resolved(name, {"root": ROOT, **files}))


def test_a_line_says_only_what_it_changes() -> None:
    child = profile(
        "child",
        child={"extends": "root", "from_version": "1.1.0", "to_version": "1.1.0", "keyless": "producer_sequence"},
    )
    changed = {"name": "child", "from_version": "1.1.0", "to_version": "1.1.0", "keyless": "producer_sequence"}
    assert child.model_dump() == {**profile("root").model_dump(), **changed}


def test_entries_of_a_table_are_changed_one_by_one() -> None:
    child = profile(
        "child",
        child={
            "extends": "root",
            "from_version": "1.1.0",
            "to_version": "1.1.0",
            "hash": {"exclusive": "exclusive"},
            "settings": {"numIOThreads": 8, "keySharedUnblockingIntervalMs": 10},
        },
    )
    assert child.hash == {"consistent_hashing": "raw", "auto_split": "raw", "exclusive": "exclusive"}
    assert child.settings == {"numIOThreads": 8, "delayedDeliveryEnabled": True, "keySharedUnblockingIntervalMs": 10}
    assert profile("root").settings == ROOT["settings"]


def test_what_falls_away_stays_away_down_the_line() -> None:
    child = {
        "extends": "root",
        "from_version": "1.1.0",
        "to_version": "1.1.0",
        "without_settings": ["numIOThreads"],
        "without_exceptions": ["E8"],
        "without_rules": ["foreign_ack"],
    }
    grandchild = {"extends": "child", "from_version": "1.2.0", "to_version": "1.2.0", "without_exceptions": ["E7"]}
    found = profile("grandchild", child=child, grandchild=grandchild)
    assert found.settings == {"delayedDeliveryEnabled": True}
    assert set(EXCEPTIONS) - set(found.exceptions) == {"E7", "E8", "E14"}
    assert set(RULES) - set(found.rules) == {"foreign_ack"}


def test_the_dispatcher_says_which_rules_there_are() -> None:
    child = {"extends": "root", "from_version": "1.1.0", "to_version": "1.1.0", "dispatcher": "recently_joined"}
    assert "draining_stuck" not in profile("child", child=child).rules
    assert "E14" in profile("child", child=child).exceptions


def test_the_releases_are_never_inherited() -> None:
    with pytest.raises(ValidationError, match=r"from_version(.|\n)*to_version"):
        profile("child", child={"extends": "root"})


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"child": {"extends": "nobody"}}, "profile 'child' extends 'nobody', but there is no such profile"),
        ({"child": {"extends": "child"}}, "child -> child"),
        ({"child": {"extends": "other"}, "other": {"extends": "child"}}, "child -> other -> child"),
        ({"child": {"extends": "root", "without_settings": ["numThreads"]}}, "settings that do not exist: numThreads"),
        ({"child": {"extends": "root", "without_exceptions": ["E18"]}}, "exceptions that do not exist: E18"),
        ({"child": {"extends": "root", "without_rules": ["order"]}}, "rules that do not exist: order"),
    ],
)
def test_what_leads_nowhere_is_an_error(files: dict[str, dict[str, Any]], message: str) -> None:
    with pytest.raises(DispatchAuditError, match=message):
        profile("child", **files)
