"""The verdict on each finding: permitted by an exception of the contract, due to a known bug, or a violation."""

from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.judge import applies, judged, plain_verdict
from dispatch_audit.pipeline.replay.verdicts.overtaking import passes_a_leaver
from dispatch_audit.pipeline.replay.verdicts.verdict import FindingVerdict

__all__ = ["FindingContext", "FindingVerdict", "applies", "judged", "passes_a_leaver", "plain_verdict"]
