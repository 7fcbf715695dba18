"""The charts of a comparison: replay queue, what was sent, and backlog over time, a lane for each dispatcher."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from dispatch_audit.pipeline.report.charts.dispatchers import over_time
from dispatch_audit.pipeline.report.page.model import Figure, Table
from dispatch_audit.pipeline.report.wording import listed, printable, sentence
from dispatch_audit.pipeline.simulate.comparison.comparison import VariantComparison, VariantResult
from dispatch_audit.pipeline.simulate.series import Series, with_equal_steps

_NAMES = 3
_STALLED = "The upright red line is where the first stall begins."
_SCALE = "All lanes have one scale; the dashed line is the dispatcher as given."


def figures(comparison: VariantComparison) -> tuple[Figure, ...]:
    """Returns the charts in the order in which they are read."""
    return (_replay(comparison), _sent(comparison), _backlog(comparison))


def _replay(comparison: VariantComparison) -> Figure:
    peaks = [one.measures["replay_peak"] for one in comparison.dispatchers]
    return Figure(
        "replay",
        "How full is the replay queue?",
        _takeaway(comparison, peaks, f"at most {peaks[0]:,} entries", "fewest"),
        _chart(
            comparison,
            lambda series: series.replay,
            lambda one: f"{one.name}: at most {one.measures['replay_peak']:,}{_stall_of(one)}",
            ("entries", "entries in the replay queue"),
        ),
        Table(
            ("dispatcher", "largest", "in the last step"),
            tuple(
                (one.name, f"{one.measures['replay_peak']:,}", f"{one.series.replay[-1]:,}")
                for one in comparison.dispatchers
            ),
            frozenset({1, 2}),
        ),
        _note(comparison, "The most in each step of {step}.", "the partition with the most of them"),
    )


def _sent(comparison: VariantComparison) -> Figure:
    sent = [one.measures["sent"] for one in comparison.dispatchers]
    return Figure(
        "sent",
        "How many entries are delivered a second?",
        _takeaway(comparison, sent, f"{sent[0]:,} in all", "most"),
        _chart(
            comparison,
            Series.sent_per_s,
            lambda one: f"{one.name}: {one.measures['sent']:,} in all{_stall_of(one)}",
            ("entries/s", "entries sent a second"),
        ),
        Table(
            ("dispatcher", "sent", "sent again", "first stall, s", "no progress, s"),
            tuple(
                (
                    one.name,
                    f"{one.measures['sent']:,}",
                    f"{one.measures['duplicates']:,}",
                    f"{one.measures['stalled_at_s']:,.1f}" if one.stalls else "-",
                    f"{one.measures['no_progress_s']:,.1f}",
                )
                for one in comparison.dispatchers
            ),
            frozenset({1, 2, 3, 4}),
        ),
        _note(comparison, "The mean of each step of {step}, with entries that were sent again.", "the sum"),
    )


def _backlog(comparison: VariantComparison) -> Figure:
    left = [one.series.backlog[-1] for one in comparison.dispatchers]
    return Figure(
        "backlog",
        "How many entries are not acknowledged?",
        _takeaway(comparison, left, f"{left[0]:,} at the end", "fewest"),
        _chart(
            comparison,
            lambda series: series.backlog,
            lambda one: f"{one.name}: {one.series.backlog[-1]:,} at the end{_stall_of(one)}",
            ("entries", "entries not acknowledged"),
        ),
        Table(
            ("dispatcher", "most", "at the end", "never sent"),
            tuple(
                (
                    one.name,
                    f"{max(one.series.backlog):,}",
                    f"{one.series.backlog[-1]:,}",
                    f"{one.measures['never_sent']:,}",
                )
                for one in comparison.dispatchers
            ),
            frozenset({1, 2, 3}),
        ),
        _note(
            comparison, "Published and not acknowledged by a consumer, at the end of each step of {step}.", "the sum"
        ),
    )


def _takeaway(comparison: VariantComparison, values: Sequence[int], given: str, best: Literal["fewest", "most"]) -> str:
    found = max(values) if best == "most" else min(values)
    names = [one.name for one, value in zip(comparison.dispatchers, values, strict=True) if value == found]
    # The lanes show all names.
    under = listed(names) if len(names) < _NAMES else f"{len(names)} of {len(values)} dispatchers"
    return sentence(f"{comparison.given.name}: {given}. The {best}, {found:,}, under {under}")


def _stall_of(one: VariantResult) -> str:
    return f", stalls at {one.measures['stalled_at_s']:,.1f} s" if one.stalls else ""


def _note(comparison: VariantComparison, what: str, together: str) -> str:
    step_s = with_equal_steps([one.series for one in comparison.dispatchers])[0].step_us / 1e6
    of_several = f" Of {comparison.partitions} partitions: {together}." if comparison.partitions > 1 else ""
    stalled = f" {_STALLED}" if any(one.stalls for one in comparison.dispatchers) else ""
    return f"{what.format(step=f'{step_s:g} s')}{of_several} {_SCALE}{stalled}"


def _chart(
    comparison: VariantComparison,
    values_of: Callable[[Series], Sequence[float]],
    title_of: Callable[[VariantResult], str],
    unit: tuple[str, str],
) -> dict[str, Any]:
    rows = list(_rows(comparison, values_of, title_of))
    return over_time(rows, *unit).to_dict(validate=False)


def _rows(
    comparison: VariantComparison,
    values_of: Callable[[Series], Sequence[float]],
    title_of: Callable[[VariantResult], str],
) -> Iterator[dict[str, Any]]:
    series = with_equal_steps([one.series for one in comparison.dispatchers])
    values = [[round(value, 1) for value in values_of(own)] for own in series]
    for number, (one, own) in enumerate(zip(comparison.dispatchers, series, strict=True)):
        lane = printable(title_of(one))
        first = {"stall": one.measures["stalled_at_s"]} if one.stalls else {}
        for at_us in _times(own, series[0]):
            value = _value(own, values[number], at_us)
            given = _value(series[0], values[0], at_us) if number else None
            yield {"lane": lane, "at": at_us / 1e6, "value": value, "given": given, **first}
            first = {}


def _times(*series: Series) -> list[int]:
    """The times at which steps begin, and at which each series ends: its line is drawn to that point."""
    ends = {one.until_us for one in series}
    return sorted(ends.union(range(0, max(ends), series[0].step_us)))


def _value(series: Series, values: Sequence[float], at_us: int) -> float | None:
    """The value of the step that a time falls into, or of the last step at its end; None: the series is over."""
    return None if at_us > series.until_us else values[min(at_us // series.step_us, len(values) - 1)]
