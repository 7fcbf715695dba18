"""The findings of all rules on one subscription, except `mixed_key_batch`, which is about its topic."""

from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.dispatch_findings import dispatch_findings
from dispatch_audit.pipeline.replay.verdicts.finding import RuleFindings
from dispatch_audit.pipeline.replay.verdicts.reported.counter_findings import counter_findings
from dispatch_audit.pipeline.replay.verdicts.reported.settings_findings import settings_findings
from dispatch_audit.pipeline.replay.verdicts.reported.snapshot_findings import mismatch_findings
from dispatch_audit.pipeline.replay.verdicts.stalls.stall_findings import stuck_findings


def findings_by_rule(context: FindingContext, per_rule_max: int) -> list[RuleFindings]:
    """The findings that the window reports, for every rule that applies to the broker; a rule may stand there twice.

    At most `per_rule_max` findings of each rule of the kernel are worded; `ALL`: every one.
    """
    of_dispatches = dispatch_findings(context, per_rule_max)
    others = (stuck_findings, mismatch_findings, settings_findings, counter_findings)
    found = [*of_dispatches, *(of_rule for source in others for of_rule in source(context))]
    return [of_rule for of_rule in found if context.applies(of_rule.rule)]
