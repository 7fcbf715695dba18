"""What a finding assumes: the values of settings that no row says, where another value might explain it."""

from collections.abc import Sequence

from dispatch_audit.pipeline.replay.settings.assumed import Assumption, assumptions
from dispatch_audit.pipeline.replay.settings.settings_in_force import DELAYED_DELIVERY, members
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext


def assumed(names: Sequence[str], context: FindingContext) -> tuple[Assumption, ...]:
    """The values that are assumed for settings, in the order of their names here."""
    return assumptions(names, context.config.settings_in_force(), context.release)


def of_waits(context: FindingContext) -> tuple[str, ...]:
    """The settings on which every wait rests: trace.json alone says that delays, which entries ask for, are off."""
    return (DELAYED_DELIVERY,) if common_of(context.found.dispatcher.seen)["delays_in_doubt"] else ()


def unknown(names: Sequence[str], context: FindingContext) -> str:
    """Why nothing may be assumed of one of the settings, as a clause; empty: of each its value may be.

    The broker may have contradicted it later than the finding.
    """
    claimed = {name for name, found in context.found.loop.settings.found.items() if not found.claim.said_by_row}
    name = next((one for name in names for one in members(name) if one in claimed), None)
    return "" if name is None else f"the broker does not have the {name} that is taken for it (settings_mismatch)"


def is_not_known(names: Sequence[str]) -> str:
    """Why a finding is not provable that rests on settings of which rows leave nothing to assume; empty: on none."""
    if not names:
        return ""
    said = " and ".join(members(name)[0] for name in names)
    return f"nothing is known of {said}: rows that say it may be missing, or the broker does not keep it"
