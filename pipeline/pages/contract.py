"""The pages about the contract: profiles, rules and causes of waiting."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from dispatch_audit.pipeline.contract.exceptions import EXCEPTIONS
from dispatch_audit.pipeline.contract.profile import Profile, profiles
from dispatch_audit.pipeline.contract.rule import Rule
from dispatch_audit.pipeline.contract.rules import RULES
from dispatch_audit.pipeline.pages.markdown import DOCS, table
from dispatch_audit.pipeline.replay.blocking.stalls.gates import GATES

_PROFILES = """\
# Profiles

<!-- Written by `make docs` from conf/profiles/: edit that instead. -->

The rules for a broker, by its release; the files of conf/profiles/ give the reasons. A profile is for some consecutive
releases of one branch. A later release of that branch is judged as the last of them, and a release of a later branch
without profiles as the last of the branch before; the report says so. `-classic` is the dispatcher that the setting
`subscriptionKeySharedUseClassicPersistentImplementation` chooses.

## Rules of each
"""
_DEFAULTS = """
## Defaults of broker.conf

The last column has the profiles whose dispatcher ignores a setting.
"""
_RULES_BEGIN = "<!-- From here on written by `make docs` from pipeline/contract/rules.py: edit that instead. -->\n"
_GATES_BEGIN = (
    "<!-- From here on written by `make docs` from pipeline/replay/blocking/stalls/gates.py: edit that instead. -->\n"
)
_RULES_END = "<!-- Up to here. -->\n"


def profiles_page() -> str:
    """The text of docs/PROFILES.md: every profile with its inherited values."""
    every = list(profiles().values())
    columns: Mapping[str, Callable[[Profile], object]] = {
        "profile": lambda p: p.name,
        "from_version": lambda p: p.from_version,
        "to_version": lambda p: p.to_version,
        "dispatcher": lambda p: p.dispatcher,
        "keyless": lambda p: p.keyless,
        "ring_collision": lambda p: p.ring_collision,
        "ring_point_text": lambda p: p.ring_point_text,
        "exclusive_gap_delivery": lambda p: p.exclusive_gap_delivery,
        "draining_return": lambda p: p.draining_return,
        "mark_delete_releases": lambda p: p.mark_delete_releases,
        "look_ahead_at_the_end": lambda p: p.look_ahead_at_the_end,
        "reads_past_replay": lambda p: p.reads_past_replay,
        "acks_release_late": lambda p: p.acks_release_late,
        "unwritable_takes_nothing": lambda p: p.unwritable_takes_nothing,
        "hash of consistent_hashing": lambda p: p.hash["consistent_hashing"],
        "hash of auto_split": lambda p: p.hash["auto_split"],
        "hash of exclusive": lambda p: p.hash["exclusive"],
        "all rules but": lambda p: ", ".join(rule for rule in RULES if rule not in p.rules),
        "all exceptions but": lambda p: ", ".join(known for known in EXCEPTIONS if known not in p.exceptions),
    }
    rules = ([_written(value_of(profile)) for value_of in columns.values()] for profile in every)
    defaults = table(["setting", "default", "other defaults", "ignored in"], _defaults(every))
    return "\n".join([_PROFILES, *table([*columns], rules), _DEFAULTS, *defaults, ""])


def _defaults(every: Sequence[Profile]) -> Iterator[list[str]]:
    """A row for each setting: the default of most profiles, and which have another one or none."""
    for setting in sorted({name for profile in every for name in profile.settings}):
        by_value: dict[str, list[str]] = {}
        for profile in every:
            by_value.setdefault(_written(profile.settings.get(setting)), []).append(profile.name)
        ignored = ", ".join(by_value.pop("", []))
        most = max(by_value, key=lambda value: len(by_value[value]))
        others = (f"{value}: {', '.join(names)}" for value, names in by_value.items() if value != most)
        yield [setting, most, "; ".join(others), ignored]


def rules_page() -> str:
    """The text of docs/RULES.md: the table of rules generated from their specifications, the rest unchanged."""
    page = (DOCS / "RULES.md").read_text(encoding="utf-8")
    before, begin, rest = page.partition(_RULES_BEGIN)
    _, end, after = rest.partition(_RULES_END)
    assert begin, "docs/RULES.md lacks the line that begins the table of rules"
    assert end, "docs/RULES.md lacks the line that ends the table of rules"
    rows = (
        [_named(name, rule), rule.about, rule.statement, rule.found_when, rule.unless, rule.counted]
        for name, rule in RULES.items()
    )
    specified = table(["rule", "about", "what holds", "found when", "a violation unless", "asked of"], rows)
    return "\n".join([f"{before}{begin}", *specified, f"{end}{after}"])


def blocking_page() -> str:
    """The text of docs/BLOCKING.md: the table of gates generated from their rows, the rest unchanged."""
    page = (DOCS / "BLOCKING.md").read_text(encoding="utf-8")
    before, begin, rest = page.partition(_GATES_BEGIN)
    _, end, after = rest.partition(_RULES_END)
    assert begin, "docs/BLOCKING.md lacks the line that begins the table of gates"
    assert end, "docs/BLOCKING.md lacks the line that ends the table of gates"
    rows = ([gate.cause.word, gate.holds, gate.contract] for gate in GATES)
    return "\n".join([f"{before}{begin}", *table(["cause", "holds back", "contract"], rows), f"{end}{after}"])


def _named(name: str, rule: Rule) -> str:
    """The name of a rule with the invariants of the contract that it checks."""
    return f"{name} ({', '.join(rule.invariants)})" if rule.invariants else name


def _written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
