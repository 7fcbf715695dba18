"""A setting that the broker contradicts is one finding, whoever claims it, and every compared setting is counted."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from local_replay import SKEW_US, Log, replayed

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.evidence.settings_evidence import Contradiction, SettingsEvidence
from dispatch_audit.pipeline.replay.settings.settings_in_force import Setting
from dispatch_audit.pipeline.replay.verdicts.finding import RuleFindings
from dispatch_audit.pipeline.replay.verdicts.reported_findings import settings_findings

LIMIT = "maxUnackedMessagesPerConsumer"


def config_of(settings: Mapping[str, object]) -> ReplayConfig:
    profile = profile_for("4.0.8", settings)
    return ReplayConfig(profile, "4.0.8", profile.broker(settings), SKEW_US, 1_000)


def contradicted(claim: Setting) -> Contradiction:
    return Contradiction(
        claim=claim,
        shown="c1 holds 90 messages and is not blocked",
        value="",
        at=TracePoint(7, 0),
        evidence=((5, "c1 holds 80"), (7, "c1 holds 90")),
        judged="unacked_limit is not judged",
    )


def found_by(settings: SettingsEvidence) -> RuleFindings:
    log = Log()
    log.join(1)
    replay = replayed(log.rows)
    replay.replayed.loop.settings = settings
    (of_rule,) = settings_findings(replay.context)
    return of_rule


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (Setting(LIMIT, 40, "trace.json"), f"trace.json claims {LIMIT} = 40, but"),
        (Setting(LIMIT, 40, "settings row", seq=3), f"the settings at seq 3 claim {LIMIT} = 40, but"),
        (
            Setting(LIMIT, 50_000, "default"),
            f"trace.json does not give {LIMIT}, whose default on this release is 50000",
        ),
    ],
)
def test_the_sentence_says_who_claims_the_setting(claim: Setting, said: str) -> None:
    settings = SettingsEvidence()
    settings.contradict(contradicted(claim))
    (finding,) = found_by(settings).worst
    assert finding.explanation.sentence.startswith(said)
    assert finding.explanation.against.endswith("c1 holds 90 messages and is not blocked")
    assert finding.explanation.why == ("unacked_limit is not judged",)
    assert (finding.severity, finding.seq, finding.evidence) == (
        "not_provable",
        7,
        ["seq 5: c1 holds 80", "seq 7: c1 holds 90"],
    )


def test_a_setting_is_contradicted_once_and_counted_once() -> None:
    settings = SettingsEvidence()
    for at in (7, 9):
        settings.compared(LIMIT)
        settings.contradict(contradicted(Setting(LIMIT, 40, "trace.json"))._replace(at=TracePoint(at, 0)))
    settings.compared("keySharedUnblockingIntervalMs")
    found = found_by(settings)
    assert (found.checked, dict(found.counts), [finding.seq for finding in found.worst]) == (
        2,
        {"not_provable": 1},
        [7],
    )


def test_a_value_that_trace_json_gives_is_its_claim_even_if_it_is_the_default() -> None:
    rules = config_of({})
    assert rules.claim(LIMIT) == Setting(LIMIT, 50_000, "default")
    assert replace(rules, given=frozenset({LIMIT})).claim(LIMIT).where == "trace.json"
    assert config_of({LIMIT: 40}).claim(LIMIT) == Setting(LIMIT, 40, "trace.json")
