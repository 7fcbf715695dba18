"""Judges one subscription: whether messages flow, who holds them up, how certain that is, and what helps.

A single dump never proves a broken order, and its rates may be a minute old: what it leaves open is said to be open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from dispatch_audit.pipeline.contract.exceptions import Dispatcher
from dispatch_audit.pipeline.contract.known_bugs import KnownBug, catalogue
from dispatch_audit.pipeline.contract.profile import Profile, profile_for, profiles
from dispatch_audit.pipeline.contract.release import Release
from dispatch_audit.pipeline.contract.signs import SignName, sign_texts
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.plural import count, entries
from dispatch_audit.pipeline.replay.settings.broker_limits import limits_of
from dispatch_audit.pipeline.report.wording import moment
from dispatch_audit.pipeline.statistics.diagnosis import Answer, Diagnosis, Reason
from dispatch_audit.pipeline.statistics.facts import SubscriptionFacts
from dispatch_audit.pipeline.statistics.lacks import lacks
from dispatch_audit.pipeline.statistics.model import KEY_SHARED, SubscriptionStats
from dispatch_audit.pipeline.statistics.moments import History, StatisticsMoment
from dispatch_audit.pipeline.statistics.movement import movement_of
from dispatch_audit.pipeline.statistics.signs.all_signs import signs_of
from dispatch_audit.pipeline.statistics.signs.sign import Found

_BEGIN_MIN: Final = 3
_NEAR: Final = 20
"""Moments before one that are looked at for what moved up to it."""
_HOLD_UP_TOO: Final = ("blocked_without_unacknowledged", "draining_beyond_held")
_STOPS_ALL: Final = ("subscription_limit", "look_ahead_limit")
"""Signs that nobody is sent anything new: that something was sent seconds ago does not speak against them."""
_HEADLINES: Final[Mapping[Answer, str]] = {
    "not_decidable": "nothing in the dumps says that messages are held up, or that they flow: poll again after 10 s",
    "flowing": "messages are sent; the backlog is {backlog}",
    "delivered": "what is left of the backlog, {backlog}, was sent and is not acknowledged yet, or is delayed",
    "no_consumer": "no consumer is connected, and {backlog} wait for one",
    "idle": "nothing waits: the backlog is empty{connected}",
}


def diagnosed(history: History, version: str | None) -> Diagnosis:
    """Returns the diagnosis of a subscription.

    Args:
        history: its moments.
        version: the release of the broker; None: that of the recording, if it has one.

    Raises:
        UsageError: the version is no version number.
    """
    last = history.moments[-1]
    release = version or last.version
    profile = None if release is None else _profile(release)
    facts = _facts(history.moments, profile)
    if facts is None:
        return Diagnosis(history, "not_decidable", _of_positions(last), (), None, ("topics stats",), release)
    found = [_with_begin(one, history.moments, profile) for one in signs_of(facts)]
    reasons = tuple(_reason(one, facts.dispatcher, release) for one in found)
    answer = _answer(facts, reasons)
    headline = _headline(answer, facts, reasons)
    return Diagnosis(history, answer, headline, reasons, facts, tuple(lacks(facts, history.topic)), release)


def _facts(moments: Sequence[StatisticsMoment], profile: Profile | None) -> SubscriptionFacts | None:
    """The facts at the last of some moments; None: it has positions only."""
    subscription = moments[-1].subscription
    if subscription is None:
        return None
    limits = limits_of(_settings(profile), looks_ahead=True)
    return SubscriptionFacts(
        subscription, moments[-1], movement_of(moments), limits, _dispatcher(subscription, profile)
    )


def _with_begin(found: Found, moments: Sequence[StatisticsMoment], profile: Profile | None) -> Found:
    """The sign, with the first of many moments from which on it stands without a gap."""
    if len(moments) < _BEGIN_MIN or sign_texts()[found.name].kind != "holds_up":
        return found
    begin = len(moments) - 1
    while begin and _shows(found.name, moments[max(begin - _NEAR, 0) : begin], profile):
        begin -= 1
    at, before = moments[begin].clock, moments[begin - 1].clock
    if not at.is_said:
        return found
    text = f"it stands in each dump from {moment((at.at_ms or 0) * 1000)} on"
    if begin and before.is_said:
        text += f", and not in that of {moment((before.at_ms or 0) * 1000)}"
    return replace(found, since="; ".join(filter(None, (text, found.since))))


def _shows(name: SignName, moments: Sequence[StatisticsMoment], profile: Profile | None) -> bool:
    facts = _facts(moments, profile)
    return facts is not None and any(one.name == name for one in signs_of(facts))


def standing(diagnosis: Diagnosis) -> str:
    """Returns what internal statistics alone show of a topic that stands, as a clause; empty: they show nothing."""
    last = diagnosis.history.moments[-1]
    cursor = last.cursor
    if last.subscription is not None or cursor is None or last.ledger is None:
        return ""
    unread = last.ledger.unread(cursor.read_position)
    if not unread or cursor.waiting_read or cursor.pending_reads or cursor.have_pending_read:
        return ""
    return f"{entries(unread)} are unread, and no read waits or is under way"


def _of_positions(last: StatisticsMoment) -> str:
    """What internal statistics alone allow to say."""
    unread = None
    if last.ledger is not None and last.cursor is not None:
        unread = last.ledger.unread(last.cursor.read_position)
    read = f"{entries(unread)} unread" if unread else "all entries were read" if unread == 0 else "positions only"
    return f"{read}; only internal statistics are there: pass `pulsar-admin topics stats` of the topic too"


def _profile(release: str) -> Profile | None:
    """The profile of a release; None: it is older than all profiles."""
    try:
        Release(release)
    except ValueError:
        raise UsageError(f"{release!r} is no version number", "pass the broker's, such as --version 4.0.8") from None
    try:
        return profile_for(release, {})
    except UsageError:
        return None


def _settings(profile: Profile | None) -> dict[str, object]:
    """The defaults of the release, and for settings that it lacks those of the first release that drains hashes."""
    first = next(one for one in profiles().values() if one.dispatcher == "draining")
    return {**first.settings, **(profile.settings if profile is not None else {})}


def _dispatcher(subscription: SubscriptionStats, profile: Profile | None) -> Dispatcher | None:
    """The dispatcher that the fields show, else that of the release (contract 7); None: not known."""
    joined = subscription.after_mark_delete or any(c.read_position_when_joining for c in subscription.consumers)
    if joined or subscription.has_text_ranges:
        return "recently_joined"
    if subscription.type not in (None, "None", KEY_SHARED):
        return None
    if any(c.draining_count is not None for c in subscription.consumers):
        return "draining"
    return None if profile is None else profile.dispatcher


def _reason(found: Found, dispatcher: Dispatcher | None, release: str | None) -> Reason:
    text = sign_texts()[found.name]
    bugs = _bugs(found.name, dispatcher, release)
    who = ", ".join(found.consumers) or "the consumers"
    remedies = [bug.remedy_for(Release(release)) if release else bug.remedy_for_any() for bug in bugs]
    return Reason(
        name=found.name,
        kind=text.kind,
        certainty=found.certainty,
        consumers=found.consumers,
        title=text.title,
        shown=found.shown,
        since=found.since,
        decide="" if found.certainty == "proved" and not bugs else text.decide.replace("{who}", who),
        bugs=tuple(bug.id for bug in bugs),
        remedy=" ".join(dict.fromkeys(remedies or [text.remedy])),
    )


def _bugs(name: SignName, dispatcher: Dispatcher | None, release: str | None) -> list[KnownBug]:
    """The known bugs that leave a sign, of those that this broker can have."""
    leaving = [bug for bug in catalogue().values() if name in bug.statistics]
    possible: list[Dispatcher] = ["draining", "recently_joined"] if dispatcher is None else [dispatcher]
    if release is None:
        return [bug for bug in leaving if bug.dispatcher in (*possible, "any")]
    return [bug for bug in leaving if any(bug.can_exist(Release(release), one) for one in possible)]


def _answer(facts: SubscriptionFacts, reasons: tuple[Reason, ...]) -> Answer:
    if any(reason.is_alarm and _holds_up(reason) for reason in reasons):
        return "held_up"
    if facts.subscription.cut:
        return "not_decidable"
    is_empty = facts.subscription.backlog == 0 and not facts.subscription.replay
    if is_empty or facts.number == 0:
        return "idle" if is_empty else "no_consumer"
    if facts.flows and (facts.shows_flow or not any(reason.name in _STOPS_ALL for reason in reasons)):
        return "flowing"
    is_open = any(_holds_up(reason) for reason in reasons) or facts.waiting != 0
    return "not_decidable" if is_open else "delivered"


def _holds_up(reason: Reason) -> bool:
    return reason.kind == "holds_up" or reason.name in _HOLD_UP_TOO


def _headline(answer: Answer, facts: SubscriptionFacts, reasons: tuple[Reason, ...]) -> str:
    leading = next((reason for reason in reasons if _holds_up(reason)), None)
    if leading is not None and answer == "held_up":
        by = f"by {', '.join(leading.consumers)}: " if leading.consumers else ""
        return f"{by}{leading.title}{' Other messages flow.' if facts.flows else ''}"
    if leading is not None and answer == "not_decidable":
        who = f" ({', '.join(leading.consumers)})" if leading.consumers else ""
        return f"the dumps are compatible with this{who}: {leading.title}"
    impossible = next((reason for reason in reasons if reason.is_alarm), None)
    but = f". But a counter cannot be: {impossible.title}" if impossible is not None else ""
    if answer == "not_decidable" and facts.subscription.cut:
        flows = "some messages are sent, but " if facts.flows else ""
        return f"{flows}the dump is cut off, and what is whole of it does not say what holds messages up{but}"
    number = facts.number
    connected = "" if number is None else f", and {count(number, 'consumer') if number else 'no consumer'} connected"
    headline = _HEADLINES[answer].format(backlog=entries(facts.subscription.backlog or 0), connected=connected)
    return f"{headline}{but}"
