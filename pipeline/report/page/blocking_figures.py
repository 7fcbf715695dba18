"""The section on blocking: what the messages waited for, who held whom up, chains, and the look-ahead limit."""

from collections.abc import Iterator

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.charts.blockers import ranked_pairs, who_blocked_whom
from dispatch_audit.pipeline.report.charts.chains import blocking_chains, chains_of
from dispatch_audit.pipeline.report.charts.look_ahead import (
    SAMPLES_MAX,
    forecast,
    fullest,
    replay_against_limit,
    sampled,
)
from dispatch_audit.pipeline.report.charts.parts.blocking_rows import blocking_side, waiting_side
from dispatch_audit.pipeline.report.charts.parts.data import cost
from dispatch_audit.pipeline.report.charts.waiting import waiting_over_time
from dispatch_audit.pipeline.report.page.model import Figure, Section, Table
from dispatch_audit.pipeline.report.page.rows import PageRows, open_seconds
from dispatch_audit.pipeline.report.summary import RunSummary
from dispatch_audit.pipeline.report.wording import duration, moment, printable, share
from dispatch_audit.pipeline.report.words import CAUSES, MESSAGE_SECOND

_ROWS = 12
# Charts of replay queues: of the subscriptions that were nearest to their limit.
_QUEUES = 2


def blocking_section(run: RunSummary, rows: PageRows) -> Section:
    """Returns the section on blocking."""
    lead = "No message waited longer than the audit reports."
    if run.causes:
        costs = ", ".join(f"{cause.cause} {cost(cause.message_seconds)}" for cause in run.causes[:3])
        lead = f"What cost most, in message-seconds: {costs}."
    figures = tuple(_of_run(run, rows)) if run.causes else ()
    near = sorted(rows.subscriptions, key=lambda subscription: _room(rows, subscription))[:_QUEUES]
    figures = (*figures, *(figure for s in near for figure in _of_subscription(rows, s)))
    words = tuple((cause.cause, CAUSES[cause.cause]) for cause in run.causes if cause.cause in CAUSES)
    meanings = Table(("word", "what it means"), (("message-second", MESSAGE_SECOND), *words))
    tables = (("What the words mean", meanings),) if run.causes else ()
    return Section("blocking", "Blocking", lead, "", (("", figures),) if figures else (), tables)


def _room(rows: PageRows, subscription: tuple[str, str]) -> float:
    """Returns the part of the look-ahead limit that was always free; 1 without a limit."""
    worst = fullest(rows.of(rows.capacity, subscription))
    return 1 - worst["replay_size"] / worst["look_ahead_limit"] if worst and worst["look_ahead_limit"] else 1.0


def _of_run(run: RunSummary, rows: PageRows) -> Iterator[Figure]:
    yield _waiting(run, rows)
    pairs = ranked_pairs(rows.blocking)
    if pairs:
        first = pairs[0]
        yield Figure(
            "blockers",
            "Who blocked whom?",
            f"{first['blocker']} blocked most: {cost(first['message_seconds'])} message-seconds ({first['cause']}).",
            who_blocked_whom(rows.blocking).to_dict(validate=False),
            Table(
                ("blocked by", "waited", "cause", "intervals", "message-seconds"),
                tuple(
                    (p["blocker"], p["waiter"], p["cause"], f"{p['intervals']:,}", cost(p["message_seconds"]))
                    for p in pairs[:_ROWS]
                ),
                frozenset({3, 4}),
                max(0, len(pairs) - _ROWS),
            ),
            "Only waiting that a consumer caused. After # comes its number in the trace, because names may be equal.",
        )
    chains = chains_of(rows.blocking)
    if chains:
        longest = chains[0]
        root = blocking_side(longest[-1])
        yield Figure(
            "chains",
            "Who waited for whom, and who is at the end of the chain?",
            f"{count(len(chains), 'chain')}; in the longest, {waiting_side(longest[0])} waited in the end for {root}.",
            blocking_chains(rows.blocking).to_dict(validate=False),
            Table(
                ("chain", "link", "waited", "for", "cause", "message-seconds"),
                tuple(
                    (
                        str(number),
                        str(at),
                        waiting_side(link),
                        blocking_side(link),
                        link["cause"],
                        cost(link["message_seconds"]),
                    )
                    for number, chain in enumerate(chains, start=1)
                    for at, link in enumerate(chain, start=1)
                ),
                frozenset({0, 1, 5}),
            ),
            "Read from the left: each one waited for the next at the same time. The square is where the chain ends.",
        )


def _waiting(run: RunSummary, rows: PageRows) -> Figure:
    drawn = sum(row["message_seconds"] for row in rows.blocking)
    total = sum(cause.message_seconds for cause in run.causes)
    notes = ["The causes overlap, so each has a lane with a scale of its own; the lanes must not be added up."]
    if drawn < total * 0.9999:
        notes.append(f"The intervals drawn have {share(drawn / total)} of the message-seconds.")
    if run.intervals_left_out:
        notes.append(f"The audit left {count(run.intervals_left_out, 'interval')} of lower cost out.")
    longest = rows.longest[0] if rows.longest else None
    takeaway = f"{run.causes[0].cause} cost most."
    if longest is not None:
        takeaway = (
            f"No consumer made progress for {duration(open_seconds(longest, run.to_ts_us))} from "
            f"{moment(longest['from_ts_us'])} on ({longest['cause']}); {longest['entries_waiting']:,} entries waited."
        )
    return Figure(
        "waiting",
        "What did messages wait for, and when?",
        takeaway,
        waiting_over_time(rows.blocking, run.to_ts_us).to_dict(validate=False),
        Table(
            ("cause", "intervals", "message-seconds"),
            tuple((c.cause, f"{c.intervals:,}", cost(c.message_seconds)) for c in run.causes),
            frozenset({1, 2}),
        ),
        " ".join(notes),
    )


def _of_subscription(rows: PageRows, subscription: tuple[str, str]) -> Iterator[Figure]:
    capacity = rows.of(rows.capacity, subscription)
    worst = fullest(capacity)
    if worst is None:
        return
    limit = worst["look_ahead_limit"]
    if limit:
        takeaway = (
            f"The replay queue held up to {worst['replay_size']:,} of {limit:,} entries "
            f"({share(worst['replay_size'] / limit)}), at {moment(worst['to_ts_us'])}."
        )
        if worst["replay_size"] >= limit:
            takeaway = f"The replay queue was full ({limit:,} entries) from {moment(worst['to_ts_us'])} on."
    else:
        takeaway = f"The replay queue held up to {worst['replay_size']:,} entries; there is no limit."
    if ahead := forecast(capacity):
        takeaway += f" At the growth of the last sample it is full in {duration(ahead['seconds_left'])}."
    notes = [f"{', '.join(map(printable, subscription))}."] if len(rows.subscriptions) > 1 else []
    if len(capacity) > SAMPLES_MAX:
        notes.append("Of many samples, the fullest of each part of the time is drawn.")
    samples = sampled(capacity)
    shown = sorted(samples, key=lambda row: -row["replay_size"])[:_ROWS]
    yield Figure(
        f"look-ahead-{rows.subscriptions.index(subscription)}",
        "How near was the replay queue to the look-ahead limit?",
        takeaway,
        replay_against_limit(capacity).to_dict(validate=False),
        Table(
            ("sample (UTC)", "replay queue", "limit", "waiting"),
            tuple(
                (
                    moment(row["to_ts_us"]),
                    f"{row['replay_size']:,}",
                    "none" if row["look_ahead_limit"] is None else f"{row['look_ahead_limit']:,}",
                    f"{row['waiting']:,}",
                )
                for row in shown
            ),
            frozenset({1, 2, 3}),
            max(0, len(samples) - len(shown)),
        ),
        " ".join(notes),
    )
