"""The settings that a simulation takes: a misspelt one is refused, and one that changes nothing is named."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING, judged_as, known_releases
from dispatch_audit.pipeline.contract.setting_kinds import is_of_kind, setting_kinds
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.messages.model_errors import shown
from dispatch_audit.pipeline.messages.nearest import did_you_mean
from dispatch_audit.pipeline.simulate.policies import count_per_hash, hot_key_overflow
from dispatch_audit.pipeline.simulate.policies.policy_names import PolicyName
from dispatch_audit.pipeline.simulate.setup import CONSISTENT_HASHING, REPLICA_POINTS, Setup
from dispatch_audit.pipeline.simulate.state.broker_settings import LIMITS, SIMULATED

_LISTED: Final = 'docs/SIMULATION.md, "Settings", lists them'
_OPTIONS: Final[Mapping[PolicyName, frozenset[str]]] = {
    "hot_key_overflow": frozenset(hot_key_overflow.OPTIONS),
    "count_per_hash": frozenset({count_per_hash.OPTION}),
}
_USED: Final = SIMULATED | {CONSISTENT_HASHING, REPLICA_POINTS, CLASSIC_SETTING}


def refuse_settings(given: Mapping[str, object], where: str = "") -> None:
    """Refuses settings that no dispatcher has, and values of another kind.

    Args:
        given: values by name.
        where: they were given, for the beginning of a message.

    Raises:
        UsageError: for the first of them.
    """
    known = {*setting_kinds(), *_USED, *(name for names in _OPTIONS.values() for name in names)}
    for name, value in given.items():
        if name not in known:
            raise UsageError(f"{where}there is no setting {name}", did_you_mean(name, known) or _LISTED)
        if not is_of_kind(name, value):
            kind = "true or false" if setting_kinds()[name] == "switch" else "a number"
            raise UsageError(f"{where}setting {name} is {shown(value)}", f"give {kind}")


def refuse_limits(names: Iterable[str]) -> None:
    """Refuses names of which no simulated dispatcher has a limit.

    Raises:
        UsageError: for the first of them.
    """
    for name in names:
        if name not in LIMITS:
            meant = did_you_mean(name, LIMITS) or f"use one of: {', '.join(sorted(LIMITS))}"
            raise UsageError(f"--search {name}: no limit has this name", meant)


def without_effect(given: Iterable[str], setup: Setup) -> Iterator[str]:
    """Yields a sentence for what the simulation does not use, or uses in a way that was not asked for.

    Args:
        given: names of settings.
        setup: the simulated dispatcher.
    """
    for name in given:
        if name not in _USED | _OPTIONS.get(setup.policy, frozenset()):
            yield f"setting {name} changes nothing in a simulation of policy {setup.policy}"
    if judged := judged_as(setup.version, setup.profile):
        meant = did_you_mean(setup.version, known_releases())
        yield f"{judged}{f'; {meant}' if meant else ''}"
