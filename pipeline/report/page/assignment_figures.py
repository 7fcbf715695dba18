"""The section on the assignment: who owned the hash space, what joins and leaves moved, and the balance."""

from collections.abc import Iterator

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.charts.balance import BALANCED_MAX, hashes_against_traffic, unbalanced
from dispatch_audit.pipeline.report.charts.churn import CHANGES_MAX, assignment_churn, changes_of
from dispatch_audit.pipeline.report.charts.draining import SPANS_MAX, draining_spans, longest_spans
from dispatch_audit.pipeline.report.charts.ownership import LANES_MAX, owned_shares, ownership_over_time
from dispatch_audit.pipeline.report.page.model import Figure, Section, Table
from dispatch_audit.pipeline.report.page.rows import PageRows, Row
from dispatch_audit.pipeline.report.summary import RunSummary
from dispatch_audit.pipeline.report.wording import duration, share
from dispatch_audit.pipeline.utc import moment

_ROWS = 12


def assignment_section(run: RunSummary, rows: PageRows) -> Section:
    """Returns the section on the assignment."""
    parts = [
        (", ".join(subscription), figures)
        for number, subscription in enumerate(rows.subscriptions)
        if (figures := tuple(_figures(run, rows, subscription, number)))
    ]
    if not parts:
        return Section("assignment", "Assignment", "The trace shows no assignment.")
    changes = sum(len(changes_of(rows.of(rows.assignments, s), [])) for s in rows.subscriptions)
    spans = sum(len(rows.of(rows.draining, s)) for s in rows.subscriptions)
    lead = f"{count(changes, 'membership change')} moved hashes, and {count(spans, 'hash', 'hashes')} had to drain."
    if rows.subscriptions_left_out:
        lead += f" Drawn are the worst subscriptions; {rows.subscriptions_left_out:,} more are in the tables."
    return Section("assignment", "Assignment", lead, count(changes, "change"), tuple(parts))


def _figures(run: RunSummary, rows: PageRows, subscription: tuple[str, str], number: int) -> Iterator[Figure]:
    assignments = rows.of(rows.assignments, subscription)
    draining = rows.of(rows.draining, subscription)
    if assignments:
        yield _ownership(run, assignments, number)
    if draining:
        yield _draining(run, draining, number)
    if assignments:
        yield _churn(run, assignments, draining, number)
    consumers = rows.of(rows.consumers, subscription)
    if unbalanced(consumers, run.to_ts_us):
        yield _balance(run, consumers, number)


def _ownership(run: RunSummary, assignments: list[Row], number: int) -> Figure:
    rects, left_out = owned_shares(assignments, run.to_ts_us)
    names = {rect["consumer"] for rect in rects}
    note = "A line as thick as its lane is the whole hash space; where a consumer has none, it owned nothing."
    if len(names) > LANES_MAX:
        note += f" Drawn are the {LANES_MAX} consumers that owned most for longest."
    if left_out:
        note += f" {count(left_out, 'assignment')} that lasted for a short time only are drawn as the one before."
    last = max(rect["to"] for rect in rects)
    at_end = sorted((rect for rect in rects if rect["to"] == last), key=lambda rect: -rect["share"])
    return Figure(
        f"ownership-{number}",
        "Who owned the hash space?",
        f"{count(len(names), 'consumer')} owned a part of it at some time; at the end {count(len(at_end), 'consumer')} "
        f"did, {at_end[0]['consumer']} the largest: {share(round(at_end[0]['share'], 3))}.",
        ownership_over_time(assignments, run.to_ts_us).to_dict(validate=False),
        Table(
            ("owner at the end", "share of the hash space"),
            tuple((rect["consumer"], share(round(rect["share"], 4))) for rect in at_end[:_ROWS]),
            frozenset({1}),
            max(0, len(at_end) - _ROWS),
        ),
        note,
    )


def _draining(run: RunSummary, draining: list[Row], number: int) -> Figure:
    spans = longest_spans(draining, run.to_ts_us)
    longest = spans[0]
    still = sum(span["ended_by"] == "still open" for span in spans)
    note = "Each mark is a hash that moved while its former owner held entries; its line ends with the draining."
    if len(spans) > SPANS_MAX:
        note += f" Drawn are the {SPANS_MAX} longest of {len(spans):,}."
    return Figure(
        f"draining-{number}",
        "Which hashes drained, and for how long?",
        f"{count(len(spans), 'hash', 'hashes')} drained, the longest for {longest['lasted']} ({longest['holder']} held "
        f"hash {longest['hash']}); {still or 'none'} still at the end.",
        draining_spans(draining, run.from_ts_us, run.to_ts_us).to_dict(validate=False),
        Table(
            ("hash", "held by", "moved to", "entries", "drained for", "ended by"),
            tuple(
                (
                    str(span["hash"]),
                    span["holder"],
                    span["new_owner"],
                    f"{span['entries']:,}",
                    duration(span["seconds"]),
                    span["ended_by"],
                )
                for span in spans[:_ROWS]
            ),
            frozenset({0, 3, 4}),
            max(0, len(spans) - _ROWS),
        ),
        note,
    )


def _churn(run: RunSummary, assignments: list[Row], draining: list[Row], number: int) -> Figure:
    changes = changes_of(assignments, draining)
    by_drain = sorted(changes, key=lambda change: (-change["drained"], -change["moved"]))
    most = by_drain[0]
    drained = sum(change["drained"] for change in changes)
    takeaway = f"{count(len(changes), 'change')} moved hashes; none had to drain."
    if drained:
        takeaway = (
            f"{count(len(changes), 'change')} moved hashes, and {count(drained, 'hash', 'hashes')} had to drain; most "
            f"at {most['change']}: {most['drained']:,}."
        )
    note = (
        "A stem is as high as the share of the hash space that moved; the number above it counts hashes that drained."
    )
    if len(changes) > CHANGES_MAX:
        note += f" Drawn are the {CHANGES_MAX} that moved most."
    return Figure(
        f"churn-{number}",
        "What did each join and leave move?",
        takeaway,
        assignment_churn(assignments, draining, run.to_ts_us).to_dict(validate=False),
        Table(
            ("time (UTC)", "change", "hashes moved", "had to drain"),
            tuple(
                (moment(int(c["at"] * 1000))[:-3], c["change"], f"{c['moved']:,}", f"{c['drained']:,}")
                for c in by_drain[:_ROWS]
            ),
            frozenset({2, 3}),
            max(0, len(changes) - _ROWS),
        ),
        note,
    )


def _balance(run: RunSummary, consumers: list[Row], number: int) -> Figure:
    rows = unbalanced(consumers, run.to_ts_us)
    worst = rows[0]
    return Figure(
        f"balance-{number}",
        "Did traffic follow the hashes?",
        f"The largest difference: {worst['label']} had {share(round(worst['hashes'], 3))} of the hashes and got "
        f"{share(round(worst['traffic'], 3))} of the traffic.",
        hashes_against_traffic(consumers, run.to_ts_us).to_dict(validate=False),
        Table(
            ("consumer", "share of hashes", "share of traffic"),
            tuple((r["label"], share(round(r["hashes"], 4)), share(round(r["traffic"], 4))) for r in rows[:_ROWS]),
            frozenset({1, 2}),
            max(0, len(rows) - _ROWS),
        ),
        "Both are shares of the whole time: a consumer that owned half of the hashes for half of the time has 25 %."
        + (" Drawn are the 20 consumers with the largest difference." if len(rows) > BALANCED_MAX else ""),
    )
