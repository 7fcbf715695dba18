"""The two answers on a run in words: whether order was kept, and whether messages made progress."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, get_args

from dispatch_audit.pipeline.contract.answers import MISSING, STUCK, Missing, Order, Progress
from dispatch_audit.pipeline.contract.rules import CLIENT_RULES
from dispatch_audit.pipeline.contract.severity import RunVerdict, Severity
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.incidents import broken_order
from dispatch_audit.pipeline.report.summary import Finding, RuleCounts, RunSummary, SubscriptionAnswers, Summary
from dispatch_audit.pipeline.report.wording import duration, moment, printable

Tone = Literal["good", "plain", "careful", "bad"]
"""From the best to the worst."""

_ORDER_TONE: Final[Mapping[Order, Tone]] = {
    "nothing_sent": "plain",
    "kept": "good",
    "not_provable": "careful",
    "known_bug": "careful",
    "broken": "bad",
}
_PROGRESS_TONE: Final[Mapping[Progress, Tone]] = {
    "nothing_sent": "plain",
    "flowing": "good",
    "not_provable": "careful",
    "held_up": "careful",
    "stalled": "bad",
}
_VERDICT_TONE: Final[Mapping[RunVerdict, Tone]] = {
    "clean": "good",
    "not_provable": "careful",
    "known_bug": "careful",
    "violation": "bad",
}
_BY_AN_OLDER_VERSION: Final = (
    "the worst of what was found; an older version of the audit wrote this run, and did not say more: audit again"
)
_EXPECTED: Final = {
    "no_owner": "no consumer was connected",
    "dispatch_rate_limit": "a dispatch rate limit was reached",
    "delayed_delivery": "entries waited for the time that their producer had asked for",
}
_UNCHECKED: Final = "no rule about order could be checked"
_WAITS_UNKNOWN: Final = "it is not known which entries waited"
_MISCLAIMED: Final = "settings_mismatch"
_IMPOSSIBLE: Final = "impossible_counter"
# Lengths of one interval in two tables differ by rounding.
_SAME_S: Final = 0.001


class Answer(NamedTuple):
    """An answer in words.

    Attributes:
        question: "order" or "progress"; of a run that an older version of the audit wrote: "verdict".
        word: the answer in a word or two.
        tone: how good that is.
        text: what it rests on, beginning with a small letter.
    """

    question: str
    word: str
    tone: Tone
    text: str


def answers_on(run: RunSummary) -> tuple[Answer, ...]:
    """Returns the answers on a run."""
    if run.order is None or run.progress is None:
        return (Answer("verdict", _spoken(run.verdict), _VERDICT_TONE[run.verdict], _BY_AN_OLDER_VERSION),)
    order = Answer("order", _spoken(run.order), _ORDER_TONE[run.order], _order(run, run.order))
    return order, Answer("progress", _spoken(run.progress), _progress_tone(run), _progress(run, run.progress))


def worse(tones: Iterable[Tone]) -> Tone:
    """Returns the worst of several tones."""
    return max(tones, key=get_args(Tone).index)


def impossible_counters(run: RunSummary) -> int:
    """Returns the number of findings on impossible counters of the broker."""
    return sum(counts.findings["info"] for counts in run.rules if counts.rule == _IMPOSSIBLE)


def facts_about_clients(run: RunSummary) -> list[Finding]:
    """Returns the first fact of each rule about clients, in the order of the rules."""
    first: dict[str, Finding] = {}
    for finding in run.findings:
        first.setdefault(finding.rule, finding)
    return [first[rule] for rule in ("cumulative_ack", *CLIENT_RULES) if rule in first]


def line_of(answer: Answer) -> str:
    """Returns the word of an answer with its text."""
    return f"{answer.word}{' ' if answer.text.startswith('for ') else ': '}{answer.text}"


def answers_on_all(summary: Summary) -> tuple[Answer, ...]:
    """Returns the worst answers of several runs, each with the number of runs that have it."""
    if summary.order is None or summary.progress is None:
        alike = sum(run.verdict == summary.verdict for run in summary.runs)
        return (Answer("verdict", _spoken(summary.verdict), _VERDICT_TONE[summary.verdict], _among(alike, summary)),)
    kept, flowing = summary.order, summary.progress
    orders, flows = (
        sum(run.order == kept for run in summary.runs),
        sum(run.progress == flowing for run in summary.runs),
    )
    return (
        Answer("order", _spoken(kept), _ORDER_TONE[kept], _among(orders, summary)),
        Answer("progress", _spoken(flowing), worse(map(_progress_tone, summary.runs)), _among(flows, summary)),
    )


def answer_on(subscription: SubscriptionAnswers) -> tuple[str, str]:
    """Returns both answers on one subscription as short texts, for programs that show one line each."""
    held_up = _held_up(subscription) if subscription.held_up_seconds else ""
    progress = f"{_spoken(subscription.progress)}{f' {held_up}' if held_up else ''}"
    lacks = f": the trace does not show {lacking(subscription.missing)}" if subscription.missing else ""
    is_unproven = subscription.order_verdict == "not_provable"
    return f"{_spoken(subscription.order_verdict)}{lacks if is_unproven else ''}", (
        f"{progress}{lacks if subscription.progress == 'not_provable' else ''}"
    )


def lacking(missing: Iterable[Missing]) -> str:
    """Returns what a trace does not show, as an object."""
    return " and ".join(MISSING[name].what for name in missing)


def to_record(missing: Iterable[Missing]) -> str:
    """Returns what to record next time, as an object."""
    return ", and ".join(MISSING[name].record for name in missing)


def missing_in(run: RunSummary) -> tuple[Missing, ...]:
    """Returns what the trace lacks, so that an answer on one of its subscriptions is not provable."""
    return tuple(dict.fromkeys(name for of in run.subscriptions for name in of.missing))


def _among(number: int, summary: Summary) -> str:
    return f"{number:,} of {count(len(summary.runs), summary.run_is)}"


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def held_back(run: RunSummary) -> int:
    """Returns how many findings and long waits a window leaves to the next one."""
    return sum(of.order_held_back + of.progress_held_back for of in run.subscriptions)


def _with_held_back(run: RunSummary, text: str, number: int, one: str, many: str, without: str) -> str:
    """Adds how many `one` or `many` are held back, or says only that if the text is `without`.

    If nothing is held back, it still says that the next window judges the last minute of this one.
    """
    if not number:
        return f"{text}; the next window judges the last minute of this one" if run.is_continued else text
    are, them = ("is", "it") if number == 1 else ("are", "them")
    held = (
        f"{count(number, one, many)} of the last minute of the window {are} held back: the next window reports {them}, "
        f"or its rows explain {them}"
    )
    return held if text == without else f"{text}; {held}"


def _order(run: RunSummary, order: Order) -> str:
    of = [subscription for subscription in run.subscriptions if subscription.order_verdict == order]
    number = sum(subscription.order_held_back for subscription in run.subscriptions)
    without = f"{_UNCHECKED}{_share(of, run)}"
    return _with_held_back(run, _of_order(run, of, order), number, "finding", "findings", without)


def _of_order(run: RunSummary, of: Sequence[SubscriptionAnswers], order: Order) -> str:
    rules = run.about("order")
    if order == "nothing_sent":
        return "nothing was sent to a consumer"
    if order == "kept":
        sent, judged = sum(s.dispatches for s in of), sum(s.dispatches_judged for s in of)
        part = f"the {judged:,} of " if judged < sent else ""
        could = " that could be judged" if part else ""
        batches = sum(p.batches - p.batches_inspected + p.mixed_batches for p in run.mixed_producers)
        # The broker keeps the order of entries; what is in a batch has the place of the batch (contract 1.5).
        of_entries = (
            f", for entries: {count(batches, 'batch', 'batches')} may mix keys, so of messages order is not provable"
            if batches
            else ""
        )
        return f"no rule about order was broken in {part}{count(sent, 'dispatch', 'dispatches')}{could}{of_entries}"
    if order == "not_provable":
        return f"{_unproven(of, rules, _UNCHECKED, leave_out=('open_entries',))}{_share(of, run)}"
    found = ", and ".join(filter(None, (_found(rules, "violation"), _found(rules, "known_bug"))))
    return f"{'; '.join(filter(None, (broken_order(run), found)))}{_share(of, run)}"


def _progress(run: RunSummary, progress: Progress) -> str:
    of = [subscription for subscription in run.subscriptions if subscription.progress == progress]
    rules = [counts for counts in run.about("progress") if counts.rule in STUCK]
    text = f"{_of_progress(run, of, rules, progress)}{_share(of, run)}{_besides(run)}"
    number = sum(subscription.progress_held_back for subscription in run.subscriptions)
    without = f"{_WAITS_UNKNOWN}{_share(of, run)}"
    return _with_held_back(run, text, number, "finding or long wait", "findings or long waits", without)


def _of_progress(
    run: RunSummary, of: Sequence[SubscriptionAnswers], rules: Sequence[RuleCounts], progress: Progress
) -> str:
    longest = max(of, key=lambda subscription: subscription.held_up_seconds, default=None)
    if progress == "nothing_sent":
        return f"nothing was sent{_expected(of)}"
    if progress == "flowing":
        return f"whenever entries waited, some were sent within {duration(run.stall_threshold_s)}{_expected(of)}"
    if progress == "not_provable":
        return _unproven(of, rules, _WAITS_UNKNOWN)
    nothing = "nothing was sent to any consumer although entries waited"
    if progress == "held_up":
        return f"{'' if longest is None else _held_up(longest)}: {nothing}{_since(run, longest)}"
    found = filter(None, (_found(rules, "violation"), _found(rules, "known_bug")))
    stalled = f"{', and '.join(found)}: entries that could have been sent were not"
    if longest is None or not longest.held_up_seconds:
        return stalled
    return f"{stalled}; for {duration(longest.held_up_seconds)} {nothing}"


def _since(run: RunSummary, longest: SubscriptionAnswers | None) -> str:
    """When the longest time without progress began, and which entries were held then."""
    for block in run.blocks:
        if longest is None or (block.topic, block.subscription) != (longest.topic, longest.subscription):
            continue
        # The interval that cost most need not be the longest.
        if block.cause == longest.held_up_cause and abs(block.worst.seconds - longest.held_up_seconds) < _SAME_S:
            roots = block.worst.root_positions
            held = f"; held were the entries from {roots[0]} on" if roots and block.worst.held else ""
            return f", from {moment(block.worst.from_ts_us)} UTC on{held}"
    return ""


def _held_up(subscription: SubscriptionAnswers) -> str:
    """How long a subscription was held up, by whom, and why."""
    by = "" if subscription.held_up_by is None else f" by {printable(subscription.held_up_by)}"
    return f"for {duration(subscription.held_up_seconds)}{by} ({subscription.held_up_cause})"


def _expected(of: Iterable[SubscriptionAnswers]) -> str:
    longest: dict[str, float] = {}
    for subscription in of:
        if cause := subscription.expected_wait_cause:
            longest[cause] = max(longest.get(cause, 0.0), subscription.expected_wait_seconds)
    waits = (
        f"{duration(seconds)} in which {_EXPECTED.get(cause, cause)}" for cause, seconds in sorted(longest.items())
    )
    text = " and ".join(waits)
    return f", but for up to {text}" if text else ""


def _progress_tone(run: RunSummary) -> Tone:
    """The tone of the answer on progress, which is worse if `_besides` has findings."""
    found: Tone = "bad" if _found(_unsaid(run), "violation") else "careful" if _besides(run) else "good"
    return worse((_PROGRESS_TONE[run.progress], found)) if run.progress else found


def _unsaid(run: RunSummary) -> list[RuleCounts]:
    """The rules that no answer covers: on limits, on what the broker reports, and on settings."""
    rules = [counts for counts in run.about("progress") if counts.rule not in STUCK]
    return [*rules, *(counts for counts in run.rules if counts.rule == _MISCLAIMED)]


def _besides(run: RunSummary) -> str:
    """The findings of the rules of `_unsaid` as clauses, and the number of impossible counters."""
    severities: tuple[Severity, ...] = ("violation", "known_bug", "not_provable")
    found = [_found(_unsaid(run), severity) for severity in severities]
    if number := impossible_counters(run):
        found.append(f"the broker reports {count(number, 'counter')} that cannot be ({_IMPOSSIBLE})")
    return "".join(f"; {clause}" for clause in found if clause)


def _unproven(
    of: Iterable[SubscriptionAnswers], rules: Iterable[RuleCounts], because: str, leave_out: Sequence[Missing] = ()
) -> str:
    """Why an answer is not provable: because of what is missing, else because of findings."""
    lacks = dict.fromkeys(name for subscription in of for name in subscription.missing)
    missing = tuple(name for name in lacks if name not in leave_out)
    found = _found(rules, "not_provable") or because
    return f"{found}, because the trace does not show {lacking(missing)}" if missing else found


def _found(rules: Iterable[RuleCounts], severity: Severity) -> str:
    """The number of findings of a severity, with the names of their rules; empty: there are none."""
    by_rule = {counts.rule: counts.findings[severity] for counts in rules if counts.findings[severity]}
    number, names = sum(by_rule.values()), ", ".join(by_rule)
    if not number:
        return ""
    if severity == "violation":
        return f"{count(number, 'violation')} of {names}"
    one, many = ("is not provable", "are not provable")
    if severity == "known_bug":
        one, many = ("matches a known bug", "match known bugs")
    return f"{count(number, 'finding')} of {names} {one if number == 1 else many}"


def _share(of: Sequence[SubscriptionAnswers], run: RunSummary) -> str:
    whole = len(run.subscriptions)
    return f", in {len(of):,} of {whole:,} subscriptions" if whole > 1 and len(of) < whole else ""
