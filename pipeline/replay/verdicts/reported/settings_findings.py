"""Findings of `settings_mismatch`: the broker contradicts a setting that the trace claims."""

from typing import Final

from dispatch_audit.pipeline.replay.evidence.compared_settings import Contradiction
from dispatch_audit.pipeline.replay.settings.settings_in_force import Setting
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingText, JudgedFinding, RuleFindings, severities
from dispatch_audit.pipeline.replay.verdicts.naming import Names
from dispatch_audit.pipeline.utc import moment

_NEVER_CLAIMED: Final = "trace.json does not give {setting}, whose default on this release is {value}"


def settings_findings(context: FindingContext) -> list[RuleFindings]:
    """The contradicted settings, in the order of the trace."""
    found = context.found
    findings = [_finding(contradiction, context.names) for contradiction in found.reported_contradictions]
    return [RuleFindings("settings_mismatch", found.loop.settings.checked, severities(findings), findings)]


def _finding(contradiction: Contradiction, names: Names) -> JudgedFinding:
    claim, at = contradiction.claim, contradiction.at
    return JudgedFinding(
        severity="not_provable",
        seq=at.seq,
        ts_us=at.ts_us,
        explanation=FindingText(
            what=_claimed(claim, names),
            contrast="but",
            against=(
                f"the broker shows {contradiction.value or 'another value'} at {moment(at.ts_us)} (seq "
                f"{names.seq(at.seq)}): {contradiction.shown}"
            ),
            why=(contradiction.judged,),
        ),
        evidence=[f"seq {names.seq(seq)}: {text}" for seq, text in contradiction.evidence],
        detail={
            "setting": claim.name,
            "claimed": claim.text,
            "claimed_by": claim.where,
            "claimed_seq": None if claim.seq is None else names.own_seq(claim.seq),
            "shown": contradiction.value or None,
        },
    )


def _claimed(claim: Setting, names: Names) -> str:
    if claim.where == "default":
        return _NEVER_CLAIMED.format(setting=claim.name, value=claim.text)
    who = "trace.json" if claim.seq is None else f"the settings at seq {names.seq(claim.seq)}"
    return f"{who} {'claim' if claim.seq is not None else 'claims'} {claim.name} = {claim.text}"
