"""What makes an audit fail: the conditions of `--fail-on`. One condition that holds is enough.

A severity takes in everything worse. `only:` asks for one kind of finding: those that match known bugs, or those that
no known bug explains. `order` and `stalled` ask for the findings that answer one question, `rule:` for those of one
rule, and `held-up` for a time without progress for any consumer.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from dispatch_audit.pipeline.contract.rule import About
from dispatch_audit.pipeline.contract.rules import RULES
from dispatch_audit.pipeline.contract.severity import SEVERITIES, Severity
from dispatch_audit.pipeline.errors import UsageError

# A known bug breaks the contract too. A nightly job must not succeed because the break is explained, so the levels
# `violation` and `known_bug` mean the same; each level below includes everything above it.
_BROKEN: Final = frozenset[Severity]({"violation", "known_bug"})
_LEVELS: Final[dict[str, frozenset[Severity]]] = {
    "violation": _BROKEN,
    "known_bug": _BROKEN,
    "not_provable": _BROKEN | {"not_provable"},
    "permitted": _BROKEN | {"not_provable", "permitted"},
    "info": frozenset(SEVERITIES),
    "only:known_bug": frozenset({"known_bug"}),
    "only:violation": frozenset({"violation"}),
}
_ABOUT: Final[dict[str, About]] = {"order": "order", "stalled": "progress"}
_NEVER: Final = "never"
_HELD_UP: Final = "held-up"
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_RULE: Final = "rule:"
_NAMES: Final = (*_LEVELS, *_ABOUT, f"{_RULE}NAME", _HELD_UP, f"{_HELD_UP}:DURATION", _NEVER)


@dataclass(frozen=True)
class FailOn:
    """The conditions that a caller chose.

    Attributes:
        severities: findings of these fail the audit.
        about: violations and known bugs of rules about these questions do.
        held_up_s: a time without progress that is longer than this many seconds does; None: none does.
        rules: violations and known bugs of these rules do.
    """

    severities: frozenset[Severity]
    about: frozenset[About] = frozenset()
    held_up_s: float | None = None
    rules: frozenset[str] = frozenset()

    @property
    def asks_for_findings(self) -> bool:
        """Whether any finding can fail the audit."""
        return bool(self.severities or self.about or self.rules)

    def by_findings(self, found: Collection[Severity], about: About, rule: str | None = None) -> bool:
        """Whether findings of these severities, of a rule about a question, fail the audit; without one, an answer."""
        asked = about in self.about or rule in self.rules
        return not self.severities.isdisjoint(found) or (asked and not _BROKEN.isdisjoint(found))

    def by_waiting(self, held_up_seconds: float) -> bool:
        """Whether a time without progress for any consumer fails the audit; 0: there was none."""
        return self.held_up_s is not None and held_up_seconds > self.held_up_s


def parse_fail_on(arguments: Sequence[str]) -> FailOn:
    """Returns the conditions that the arguments name, several of which may stand in one, with commas between them.

    Raises:
        UsageError: a condition does not exist, or `never` stands beside others.
    """
    names = [name.strip() for argument in arguments for name in argument.split(",")]
    if _NEVER in names and len(set(names)) > 1:
        raise UsageError("--fail-on never excludes other conditions", "leave it or the others out")
    rules = frozenset(_rule_in(name) for name in names if name.startswith(_RULE))
    chosen, held_up = [name for name in names if not name.startswith((_HELD_UP, _RULE))], _held_up_in(names)
    for name in chosen:
        if name not in (*_LEVELS, *_ABOUT, _NEVER):
            raise UsageError(f"--fail-on {name} is no condition", f"the conditions are {', '.join(_NAMES)}")
    severities = frozenset(severity for name in chosen for severity in _LEVELS.get(name, ()))
    return FailOn(severities, frozenset(_ABOUT[name] for name in chosen if name in _ABOUT), held_up, rules)


def _rule_in(name: str) -> str:
    rule = name.removeprefix(_RULE)
    if rule not in RULES:
        near = get_close_matches(rule, RULES, n=3) or sorted(RULES)
        raise UsageError(f"--fail-on {name} names no rule", f"write {_RULE}NAME, with {', '.join(near)}")
    return rule


def _held_up_in(names: Sequence[str]) -> float | None:
    """The shortest time that a condition asks for, in seconds; without a time any wait that counts will do."""
    seconds = []
    for name in names:
        kind, colon, length = name.partition(":")
        if not kind.startswith(_HELD_UP):
            continue
        parsed = _DURATION.fullmatch(length)
        if kind != _HELD_UP or (colon and parsed is None):
            raise UsageError(
                f"--fail-on {name} is no condition", f"write {_HELD_UP}, or {_HELD_UP}:30s (units: ms, s, m, h)"
            )
        seconds.append(0.0 if parsed is None else float(parsed[1]) * _SECONDS[parsed[2]])
    return min(seconds, default=None)
