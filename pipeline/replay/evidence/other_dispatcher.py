"""Whether a dispatcher that is created may be of the other kind, classic or not, than the profile (contract 8)."""

from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING, Profile
from dispatch_audit.pipeline.replay.settings.settings_in_force import SettingsInForce


def may_be_other(in_force: SettingsInForce, profile: Profile) -> bool:
    """Whether rows say another kind at the creation of a dispatcher than the profile has.

    The first consumer after none may find the former dispatcher, which keeps its kind; only after an unload is
    there certainly a new one. So the kind stays open from here on, even if rows have the former value again.
    """
    said = [setting for setting in in_force.possible(CLASSIC_SETTING) if setting.said_by_row]
    there_are_two = profile.classic or profile.has_classic
    return there_are_two and any((setting.value is True) != profile.classic for setting in said)
