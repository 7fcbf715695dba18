"""Findings of `clocks_apart`: a topic moved between two brokers whose clocks do not agree."""

from collections.abc import Iterator
from itertools import pairwise

from dispatch_audit.pipeline.replay.recorders.recorders import Apart, Term
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.finding import FindingText, JudgedFinding, RuleFindings


def clocks_apart(context: FindingContext) -> Iterator[RuleFindings]:
    """The transfers between clocks that are apart; nothing where a topic has one recorder."""
    recorders = context.recorders
    if recorders.terms:
        after = {term.first: before for before, term in pairwise(recorders.terms)}
        found = [_finding(apart, after[apart.place], context) for apart in recorders.apart]
        yield RuleFindings("clocks_apart", len(after), {"not_provable": len(found)}, found)


def _finding(apart: Apart, before: Term, context: FindingContext) -> JudgedFinding:
    return JudgedFinding(
        severity="not_provable",
        seq=apart.place,
        ts_us=before.until_us,
        explanation=FindingText(
            what=context.recorders.spoken_clocks(apart),
            why=(
                f"their rows are behind the stamps of the producer {apart.producer} by times that differ by as much, "
                "so nothing is said of how long anything took that began on the one and ended on the other",
            ),
            remedy="Synchronize the clocks of the brokers (NTP).",
        ),
        evidence=[f"seq {context.names.seq(apart.place)}: first row of the next owner"],
        detail={"ahead_seconds": apart.ahead_us / 1e6, "producer": apart.producer},
    )
