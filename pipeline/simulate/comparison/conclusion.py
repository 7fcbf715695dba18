"""The conclusion of a comparison: what the dispatcher as given does, and which others keep order and never stall."""

from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.report.wording import duration, listed
from dispatch_audit.pipeline.simulate.comparison.comparison import VariantComparison, VariantResult


def is_bad(one: VariantResult) -> bool:
    """Whether a dispatcher breaks the order or stalls."""
    return one.stalls or one.violations > 0


def headline(comparison: VariantComparison) -> str:
    """Returns in a few words what the dispatcher as given does."""
    given = comparison.given
    if given.violations:
        return f"{count(given.violations, 'violation')} as given"
    if given.stalls:
        return f"No progress for {duration(given.measures['no_progress_s'])} as given"
    return "Order is kept and nothing stalls as given" if comparison.audited else "Nothing stalls as given"


def meaning(comparison: VariantComparison) -> str:
    """Returns which dispatcher of those that keep order and never stall needs the smallest replay queue."""
    stalled = ""
    if comparison.given.stalls:
        stalled = f"As given, the first stall begins after {comparison.given.measures['stalled_at_s']:,.1f} s. "
    kept, keeps = ("keep the order and ", "keeps the order and ") if comparison.audited else ("", "")
    good = [one for one in comparison.dispatchers if not is_bad(one)]
    if not good:
        best = min(comparison.dispatchers, key=lambda one: (one.violations, one.measures["no_progress_s"]))
        violations = f"{count(best.violations, 'violation')} and " if comparison.audited else ""
        without = f"{best.measures['no_progress_s']:,.1f} s without progress"
        return f"{stalled}None of the dispatchers {keeps}never stalls. The best is {best.name}: {violations}{without}."
    fewest = min(one.measures["replay_peak"] for one in good)
    names = listed([one.name for one in good if one.measures["replay_peak"] == fewest])
    what = f"{keeps}never stalls" if len(good) == 1 else f"{kept}never stall"
    number = f"{len(good)} of {count(len(comparison.dispatchers), 'dispatcher')} {what}"
    return f"{stalled}{number}. Of these, the replay queue is smallest ({entries(fewest)} at most) under {names}."
