"""The pages about the contract: profiles and rules."""

from collections.abc import Callable, Mapping

from dispatch_audit.pipeline.contract.exceptions import EXCEPTIONS
from dispatch_audit.pipeline.contract.profile import Profile, profiles
from dispatch_audit.pipeline.contract.rule import Rule
from dispatch_audit.pipeline.contract.rules import RULES
from dispatch_audit.pipeline.pages.markdown import DOCS, table

_PROFILES = """\
# Profiles

<!-- Written by `make docs` from conf/profiles/: edit that instead. -->

The rules for a broker, by the line of its version; the files of conf/profiles/ give the reasons. `-classic` is the
dispatcher that `subscriptionKeySharedUseClassicPersistentImplementation` chooses. The second table has the defaults of
broker.conf; an empty cell: that dispatcher ignores the setting.
"""
_RULES_BEGIN = "<!-- From here on written by `make docs` from pipeline/contract/rules.py: edit that instead. -->\n"
_RULES_END = "<!-- Up to here. -->\n"


def profiles_page() -> str:
    """The text of docs/PROFILES.md: the full profile of each line of broker versions, with its inherited values."""
    every = list(profiles().values())
    names = [profile.name for profile in every]
    settings = sorted({name for profile in every for name in profile.settings})
    rows: Mapping[str, Callable[[Profile], object]] = {
        "from_version": lambda p: p.from_version,
        "dispatcher": lambda p: p.dispatcher,
        "keyless": lambda p: p.keyless,
        "ring_collision": lambda p: p.ring_collision,
        "exclusive_gap_delivery": lambda p: p.exclusive_gap_delivery,
        "draining_return": lambda p: p.draining_return,
        "mark_delete_releases": lambda p: p.mark_delete_releases,
        "hash of consistent_hashing": lambda p: p.hash["consistent_hashing"],
        "hash of auto_split": lambda p: p.hash["auto_split"],
        "hash of exclusive": lambda p: p.hash["exclusive"],
        "all rules but": lambda p: ", ".join(rule for rule in RULES if rule not in p.rules),
        "all exceptions but": lambda p: ", ".join(known for known in EXCEPTIONS if known not in p.exceptions),
    }
    values = ([name, *(_written(value_of(profile)) for profile in every)] for name, value_of in rows.items())
    defaults = ([name, *(_written(profile.settings.get(name)) for profile in every)] for name in settings)
    return "\n".join([_PROFILES, *table(["", *names], values), "", *table(["setting", *names], defaults), ""])


def rules_page() -> str:
    """The text of docs/RULES.md: the table of rules generated from their specifications, the rest unchanged."""
    page = (DOCS / "RULES.md").read_text(encoding="utf-8")
    before, begin, rest = page.partition(_RULES_BEGIN)
    _, end, after = rest.partition(_RULES_END)
    assert begin, "docs/RULES.md lacks the line that begins the table of rules"
    assert end, "docs/RULES.md lacks the line that ends the table of rules"
    rows = (
        [_named(name, rule), rule.statement, rule.found_when, rule.unless, rule.counted] for name, rule in RULES.items()
    )
    specified = table(["rule", "what holds", "found when", "a violation unless", "asked of"], rows)
    return "\n".join([f"{before}{begin}", *specified, f"{end}{after}"])


def _named(name: str, rule: Rule) -> str:
    """The name of a rule with the invariants of the contract that it checks."""
    return f"{name} ({', '.join(rule.invariants)})" if rule.invariants else name


def _written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
