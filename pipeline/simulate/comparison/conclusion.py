"""The conclusion of a comparison: how far it reproduces the recording, what happens as given, and what does better."""

from collections.abc import Sequence

from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.report.wording import duration, listed
from dispatch_audit.pipeline.simulate.comparison.comparison import VariantComparison, VariantResult, findings_in
from dispatch_audit.pipeline.simulate.measures import MeasuresRow

# What is held up for less is no difference between a recording and a model.
_ALIKE_S = 1.0


def is_bad(one: VariantResult) -> bool:
    """Whether a dispatcher breaks the order or stalls."""
    return one.stalls or one.findings > 0


def headline(comparison: VariantComparison) -> str:
    """Returns in a few words what the dispatcher as given does in the simulation."""
    given = comparison.given
    simulated = "as given"
    if comparison.recorded is not None:
        only = findings_in(comparison.recorded) > given.findings == 0
        simulated = "as given, but only in the simulation" if only else "as given, in the simulation"
    if given.findings:
        return f"{count(given.findings, 'finding')} {simulated}"
    if given.stalls:
        return f"No progress for {duration(given.measures['no_progress_s'])} {simulated}"
    return f"{'Order is kept and nothing' if comparison.audited else 'Nothing'} stalls {simulated}"


def reproduction(comparison: VariantComparison) -> str:
    """Returns how far the simulation as given is what was recorded; empty: nothing recorded is known."""
    recorded, given = comparison.recorded, comparison.given.measures
    if recorded is None:
        return ""
    both = f"recorded: {_told(recorded)}; simulated as given: {_told(given)}"
    differs = []
    if bool(findings_in(recorded)) != bool(findings_in(given)):
        differs.append("its findings")
    if abs(recorded["held_up_s"] - given["held_up_s"]) > max(_ALIKE_S, recorded["held_up_s"] / 2):
        differs.append("its waits")
    if not differs:
        return f"{both}."
    return (
        f"{both}. The simulation does not reproduce {' and '.join(differs)}, so it does not show what would end them."
    )


def _told(row: MeasuresRow) -> str:
    found = count(findings_in(row), "finding")
    return f"{count(row['judged'], 'dispatch', 'dispatches')}, {found}, held up for {duration(row['held_up_s'])}"


def meaning(comparison: VariantComparison) -> str:
    """Returns which dispatcher of this release does best, and what others would do."""
    stalled = ""
    if comparison.given.stalls:
        stalled = f"As given, the first stall begins after {comparison.given.measures['stalled_at_s']:,.1f} s. "
    same = [one for one in comparison.dispatchers if one.version == comparison.given.version]
    others = [one for one in comparison.dispatchers if one.version != comparison.given.version]
    return f"{stalled}{_best(same, comparison)}{_of_other_releases(others, comparison)}"


def _best(same: Sequence[VariantResult], comparison: VariantComparison) -> str:
    """Which dispatcher of one release keeps order, never stalls and needs the smallest replay queue."""
    kept, keeps = ("keep the order and ", "keeps the order and ") if comparison.audited else ("", "")
    good = [one for one in same if not is_bad(one)]
    release = comparison.given.version
    if not good:
        best = min(same, key=lambda one: (one.findings, one.measures["no_progress_s"]))
        found = f"{count(best.findings, 'finding')} and " if comparison.audited else ""
        without = f"{best.measures['no_progress_s']:,.1f} s without progress"
        return f"None of the dispatchers of {release} {keeps}never stalls. The best is {best.name}: {found}{without}."
    fewest = min(one.measures["replay_peak"] for one in good)
    names = listed([one.name for one in good if one.measures["replay_peak"] == fewest])
    what = f"{keeps}never stalls" if len(good) == 1 else f"{kept}never stall"
    number = f"{len(good)} of {count(len(same), 'dispatcher')} of {release} {what}"
    return f"{number}. Of these, the replay queue is smallest ({entries(fewest)} at most) under {names}."


def _of_other_releases(others: Sequence[VariantResult], comparison: VariantComparison) -> str:
    """What dispatchers of other releases do: a release differs in more than what a row is named after."""
    if not others:
        return ""
    good = "keeps the order and never stalls" if comparison.audited else "never stalls"
    told = [f"{one.name} ({one.version}) {_fault(one) if is_bad(one) else good}" for one in others]
    return f" Under other releases, which differ in more than that: {'; '.join(told)}."


def _fault(one: VariantResult) -> str:
    return f"has {count(one.findings, 'finding')}" if one.findings else "stalls"
