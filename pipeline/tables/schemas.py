"""The Delta tables, a constant each: columns with units, nullability, and CHECK constraints.

Conventions: every table begins with `run_key`. A moment is two columns, microseconds since 1970 UTC as
recorded (`ts_us`) and the timestamp made of them (`ts`). An interval is `from_*` to `to_*`, inclusive; where
`to_*` is NULL it was still open at the end of the trace. The constraints protect the columns that readers compute with
and that a report states. They use only functions that both Spark and delta-rs know.
"""

from dispatch_audit.pipeline.contract.answers import MISSING, ORDERS, PROGRESSES
from dispatch_audit.pipeline.contract.severity import SEVERITIES, VERDICTS
from dispatch_audit.pipeline.tables.table_schema import RUN_KEY, Column, ColumnType, TableSchema

_RUN_KEY = Column(RUN_KEY, "string", "the run that wrote this row, see runs")
_GROUP = (
    Column("topic", "string", "full name of the topic partition"),
    Column("subscription", "string", "name of the subscription"),
)
_INTERVAL_CHECK = "to_seq IS NULL OR to_seq >= from_seq"


def _optional(name: str, kind: ColumnType, comment: str) -> Column:
    return Column(name, kind, comment, nullable=True)


_BROKER = _optional(
    "broker", "string", "recorder that numbered the seqs and consumers of this row; NULL: the trace names none"
)


def _moment(name: str, comment: str, nullable: bool = False) -> tuple[Column, Column]:
    return (
        Column(f"{name}_us", "bigint", f"{comment}, microseconds since 1970 UTC", nullable),
        Column(name, "timestamp", f"{comment}, UTC", nullable, derived_from=f"{name}_us"),
    )


def _interval(subject: str) -> tuple[Column, ...]:
    return (
        Column("from_seq", "bigint", f"seq of the event with which {subject} began"),
        _optional(
            "to_seq",
            "bigint",
            f"seq of the event with which {subject} ended, or the last of its recorder before the topic moved to "
            "another broker; NULL: still open",
        ),
        *_moment("from_ts", f"when {subject} began"),
        *_moment("to_ts", f"when {subject} ended; NULL: still open", nullable=True),
    )


def _one_of(column: str, names: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(repr(name) for name in names)})"


RUNS = TableSchema(
    "runs",
    "One audit of one trace. Written last: a run without a row here is not complete.",
    (
        _RUN_KEY,
        Column("verdict", "string", f"worst of what was found: {', '.join(VERDICTS)}"),
        _optional(
            "order_verdict",
            "string",
            f"whether order was kept, the worst of all subscriptions: {', '.join(ORDERS)}; NULL, here and in the next "
            "two columns: an older version of the audit wrote the row",
        ),
        _optional(
            "progress",
            "string",
            f"whether messages made progress, the worst of all subscriptions: {', '.join(PROGRESSES)}",
        ),
        _optional("held_up_seconds", "double", "the longest coverage.held_up_seconds"),
        Column("completeness", "double", "share of the trace that could carry a verdict, 0 to 1"),
        Column("events_in", "bigint", "rows read"),
        Column("events_audited", "bigint", "rows that the audit used"),
        Column("events_quarantined", "bigint", "rows refused or delivered again, see quarantine"),
        Column("profile", "string", "broker profile (conf/profiles) whose rules applied"),
        _optional("pulsar_version", "string", "version of the broker as trace.json states it"),
        _optional(
            "recorded_by",
            "string",
            "where the trace was recorded: broker; client or admin_api: nothing in it proves a violation; NULL: an "
            "older version of the audit wrote the row",
        ),
        _optional("keys", "string", "plain; digest where the rows have digests in the place of keys"),
        _optional("sample", "string", "share of the hashes that was audited, such as 1/64; NULL: all hashes"),
        _optional("sample_salt", "string", "chooses which hashes belong to that share; NULL: all do"),
        Column(
            "inputs",
            "array<string>",
            "absolute path, URI or name of the trace",
        ),
        Column("settings", "string", "settings of the audit, JSON"),
        _optional(
            "findings_accepted",
            "bigint",
            "findings that the baseline of the audit accepts (violations.accepted); NULL: it was given none",
        ),
        Column("code_version", "string", "version of dispatch-audit"),
        _optional("engine", "string", "engine that ran the audit, and its version; NULL: the audit did not say"),
        *_moment("from_ts", "first event of the trace", nullable=True),
        *_moment("to_ts", "last event of the trace", nullable=True),
        _optional("chain", "string", "hash of inputs, profile and settings; the windows of one log share it"),
        *_moment("window_from", "where the window begins; NULL: at the beginning of the log", nullable=True),
        *_moment("window_to", "where the window ends, not in it; NULL: at the end of the log", nullable=True),
        _optional(
            "starts_from",
            "string",
            "beginning: the window starts with the log; state: from the state that the window before left; censored: "
            "from neither, so what was open then is not known; NULL, here and in the other columns about windows: the "
            "whole log was audited",
        ),
        _optional("first_seq", "bigint", "lowest seq of the window; NULL: the log's"),
        _optional("next_seq", "bigint", "lowest seq that is left to the next window; NULL: there is none"),
        _optional("events_without_seq", "bigint", "rows read that have no readable seq, counted in one window only"),
        _optional("events_late", "bigint", "rows added to earlier windows after their audit, which no run has audited"),
        *_moment("started_at", "when the audit started"),
        *_moment("ended_at", "when the audit had written its other tables"),
        Column("stages", "stages", "stages of the audit: name, wall time in seconds, rows produced"),
    ),
    {
        "verdict_known": _one_of("verdict", VERDICTS),
        "every_row_accounted_for": "events_in = events_audited + events_quarantined",
        "completeness_is_a_share": "completeness BETWEEN 0 AND 1",
        "start_known": f"starts_from IS NULL OR {_one_of('starts_from', ('beginning', 'state', 'censored'))}",
    },
)

METRICS = TableSchema(
    "metrics",
    "One rule on one subscription of one topic partition; also rules without findings.",
    (
        _RUN_KEY,
        *_GROUP,
        Column("rule", "string", "name of the rule"),
        Column("checked", "bigint", "events or entries that the rule was applied to"),
        Column("violations", "bigint", "findings that break the contract and match no known bug"),
        Column("permitted", "bigint", "findings that an exception of the contract permits"),
        Column("known_bug", "bigint", "findings that match a known bug of the broker"),
        Column("not_provable", "bigint", "findings that the trace can neither prove nor rule out"),
        Column("info", "bigint", "facts outside of the contract"),
        _optional("completeness", "double", "share of the group's events that could carry a verdict, 0 to 1"),
    ),
    {
        "counts_not_negative": "least(checked, violations, permitted, known_bug, not_provable, info) >= 0",
        "completeness_is_a_share": "completeness IS NULL OR completeness BETWEEN 0 AND 1",
    },
)

VIOLATIONS = TableSchema(
    "violations",
    "One finding of a rule. Capped per rule and subscription; metrics counts all.",
    (
        _RUN_KEY,
        _optional(
            "finding_id",
            "string",
            "identity of the finding, 12 hex digits, the same in every audit of the trace; NULL: an older version of "
            "the audit wrote the row",
        ),
        Column("rule", "string", "name of the rule"),
        Column("severity", "string", f"one of {', '.join(SEVERITIES)}"),
        *_GROUP,
        _optional("sticky_hash", "bigint", "sticky-key hash of the entry in the range of the selector"),
        _optional("key", "string", "sticky key, as text if it is UTF-8 and in base64 if not"),
        _optional("key_id", "bigint", "64 bits of mmh3 of the sticky key: distinguishes keys on one hash"),
        _optional("ledger_id", "bigint", "ledger of the entry"),
        _optional("entry_id", "bigint", "entry in the ledger"),
        _optional("consumer", "bigint", "consumer that the finding is about, as numbered in the trace"),
        _optional("consumer_name", "string", "its name as the client gave it"),
        _optional("other_consumer", "bigint", "consumer on the other side, the holder for instance"),
        _optional("other_consumer_name", "string", "its name as the client gave it"),
        _optional("epoch", "bigint", "consumer epoch, counted from 0 at the first membership change"),
        _optional(
            "change",
            "string",
            "membership change that began the epoch, join c2 for instance, where the owner of the hash is at issue",
        ),
        _BROKER,
        Column("seq", "bigint", "seq of the event that completes the finding"),
        *_moment("ts", "broker's clock at that event"),
        _optional("permitted_by", "string", "exception that permits it, E1 to E17"),
        _optional("known_bug", "string", "bug that it matches: issue number, or F1 to F12"),
        _optional("detail", "string", "machine-readable particulars of the rule, JSON"),
        Column("evidence", "array<string>", "events that prove it, oldest first"),
        _optional("what", "string", "what happened, a clause; NULL: an older version of the audit wrote the row"),
        _optional("against", "string", "what contradicts it, a clause; NULL: it is wrong by itself"),
        _optional("why", "array<string>", "reasons for the verdict, a clause each, known bugs with their titles last"),
        _optional("remedy", "string", "what helps, in sentences; NULL: nothing is known to"),
        _optional(
            "assumes",
            "assumptions",
            "values of settings on which it rests and that no row says: setting, value, and whose it is (claimed, or "
            "default of a release); NULL: it rests on none",
        ),
        Column("explanation", "string", "the finding in a sentence: what, against, why, what it assumes, and remedy"),
        _optional(
            "accepted", "boolean", "whether the baseline of the audit accepts the finding; NULL: it accepts none"
        ),
    ),
    {
        "severity_known": _one_of("severity", SEVERITIES),
        "permission_has_a_reason": "severity <> 'permitted' OR permitted_by IS NOT NULL",
        "known_bug_has_a_name": "severity <> 'known_bug' OR known_bug IS NOT NULL",
        "finding_has_evidence": "cardinality(evidence) > 0",
    },
)

BLOCKING = TableSchema(
    "blocking",
    "An interval in which published entries waited, with its cause and the entries that blocked them.",
    (
        _RUN_KEY,
        Column("scope", "string", "what was blocked: hash, consumer or subscription"),
        Column("cause", "string", "cause of the waiting, draining for instance"),
        *_GROUP,
        _optional("sticky_hash", "bigint", "hash that waited, on scope hash"),
        _optional("consumer", "bigint", "consumer that waited for the entries"),
        _optional("consumer_name", "string", "its name as the client gave it"),
        _optional("blocking_consumer", "bigint", "consumer that it waited for"),
        _optional("blocking_consumer_name", "string", "its name as the client gave it"),
        _BROKER,
        *_interval("the waiting"),
        Column(
            "entries_waiting",
            "bigint",
            "entries that waited at any time of the interval; one that was given back meanwhile counts again",
        ),
        Column("message_seconds", "double", "waiting time summed over the waiting messages, seconds"),
        Column(
            "root_positions",
            "array<string>",
            "oldest unacknowledged entries that it depended on, as long as it lasted, ledger:entry; where no consumer "
            "is to blame, or the hashes had drained, the oldest that waited",
        ),
        _optional("ended_by", "string", "what ended it: ack, leave, reset, ...; NULL: still open"),
        _optional("detail", "string", "machine-readable particulars of the cause, JSON"),
        _optional("explanation", "string", "the interval in a sentence"),
    ),
    {
        "scope_known": _one_of("scope", ("hash", "consumer", "subscription")),
        "interval_in_order": _INTERVAL_CHECK,
        "waiting_not_negative": "entries_waiting >= 0 AND message_seconds >= 0",
    },
)

ASSIGNMENTS = TableSchema(
    "assignments",
    "A range of hashes while it had these bounds and this owner.",
    (
        _RUN_KEY,
        *_GROUP,
        Column("epoch", "bigint", "first consumer epoch of the row, counted from 0 at the first membership change"),
        _optional("last_epoch", "bigint", "last consumer epoch of the row; NULL: still open"),
        Column("consumer", "bigint", "owner, as numbered in the trace"),
        _optional("consumer_name", "string", "its name as the client gave it"),
        Column("range_start", "bigint", "first hash of the range"),
        Column("range_end", "bigint", "last hash of the range"),
        _BROKER,
        *_interval("the ownership"),
        Column("change", "string", "membership change that it began with"),
        Column("hashes_moved", "bigint", "hashes of the selector's range that changed their owner with that change"),
        _optional("undecided", "string", "why another consumer may own a part of the range; NULL: nobody else does"),
    ),
    {
        "range_in_order": "range_start >= 0 AND range_end >= range_start",
        "epochs_in_order": "last_epoch IS NULL OR last_epoch >= epoch",
        "interval_in_order": _INTERVAL_CHECK,
    },
)

DRAINING = TableSchema(
    "draining",
    "One draining hash: it moved while its former owner still held entries (PIP-379).",
    (
        _RUN_KEY,
        *_GROUP,
        Column("sticky_hash", "bigint", "the hash"),
        Column("holder", "bigint", "consumer that still held entries, as numbered in the trace"),
        _optional("holder_name", "string", "its name as the client gave it"),
        _optional("new_owner", "bigint", "consumer that the hash moved to; NULL: nobody owned it"),
        _optional("new_owner_name", "string", "its name as the client gave it"),
        _BROKER,
        *_interval("the draining"),
        Column("entries_at_start", "bigint", "entries pending at the holder when it began"),
        _optional(
            "blocked_attempts",
            "bigint",
            "attempts to send its entries that were blocked, as the last snapshot of the interval reports",
        ),
        _optional(
            "returned_seq",
            "bigint",
            "seq of the membership change that returned the hash to its holder, so that it blocked nobody any more; "
            "NULL: it was not returned",
        ),
        *_moment("returned_ts", "when the hash went back to its holder", nullable=True),
        _optional("ended_by", "string", "what ended it: ack, leave, reset, ...; NULL: still open"),
    ),
    {
        "hash_is_drained_of_something": "entries_at_start > 0",
        "interval_in_order": _INTERVAL_CHECK,
    },
)

CONSUMERS = TableSchema(
    "consumers",
    "One consumer object of a subscription; a reconnect is another.",
    (
        _RUN_KEY,
        *_GROUP,
        Column("consumer", "bigint", "the consumer, as numbered in the trace"),
        _optional("consumer_name", "string", "its name as the client gave it"),
        _BROKER,
        *_moment("joined_at", "when it joined; NULL: before the trace began, or in a gap", nullable=True),
        *_moment("left_at", "when it left; NULL: still connected", nullable=True),
        _optional("leave_reason", "string", "close_consumer, connection_closed, closed_by_broker, or a reset"),
        Column("dispatched", "bigint", "entries sent to it, an entry sent again counted again"),
        Column("acked", "bigint", "entries acknowledged by it"),
        _optional("hash_share", "double", "share of the hashes owned, weighted by time connected, 0 to 1"),
        _optional("traffic_share", "double", "share of the subscription's dispatched entries, 0 to 1"),
        Column("drainingHashesCount", "bigint", "hashes that it drained when it left or the trace ended (PIP-379)"),
        Column("drainingHashesClearedTotal", "bigint", "hashes that it has drained (PIP-379)"),
        Column("drainingHashesUnackedMessages", "bigint", "entries pending on drainingHashes (PIP-379)"),
        _optional("drainingHashes", "array<string>", "those hashes, each with its pending entries (PIP-379)"),
        Column("draining_hashes_max", "bigint", "most hashes that it drained at one time"),
        Column("draining_bytes_max", "bigint", "memory of the broker for them, 80 bytes a hash by PIP-379's estimate"),
        _optional(
            "readPositionWhenJoining",
            "string",
            "read position when it joined, as a snapshot reports it (3.x and classic), ledger:entry",
        ),
        _optional(
            "last_sent_position_when_joining",
            "string",
            "highest position dispatched when it joined, ledger:entry; under PIP-282 new entries after it would have "
            "been held back",
        ),
        _optional(
            "consumersAfterMarkDeletePosition",
            "string",
            "position that mark-delete had to reach before it was sent anything new (3.x and classic), ledger:entry",
        ),
    ),
    {
        "shares_are_shares": "(hash_share IS NULL OR hash_share BETWEEN 0 AND 1) AND "
        "(traffic_share IS NULL OR traffic_share BETWEEN 0 AND 1)",
        "left_after_joining": "joined_at_us IS NULL OR left_at_us IS NULL OR left_at_us >= joined_at_us",
    },
)

HOT_KEYS = TableSchema(
    "hot_keys",
    "A key with much traffic, or whose hash has much traffic, many pending entries or long waits; the top few of each.",
    (
        _RUN_KEY,
        *_GROUP,
        Column("sticky_hash", "bigint", "sticky-key hash in the range of the selector"),
        _optional("key", "string", "sticky key, as text if it is UTF-8 and in base64 if not; NULL: never recorded"),
        _optional("key_id", "bigint", "64 bits of mmh3 of the sticky key; NULL: nothing of the hash was dispatched"),
        _optional("ledger_id", "bigint", "ledger of an entry of the key"),
        _optional("entry_id", "bigint", "that entry in the ledger"),
        Column(
            "keys_on_hash",
            "bigint",
            "different keys of the hash dispatched, or digests; a lower bound where it is not exact",
        ),
        Column("dispatched", "bigint", "dispatches of the key, redeliveries too"),
        Column("dispatched_error_max", "bigint", "by how many dispatched may be too few; 0: it is exact"),
        _optional("dispatched_share", "double", "share of the subscription's dispatches, 0 to 1"),
        Column("hash_dispatched", "bigint", "dispatches of the whole hash"),
        _optional("unacked_max", "bigint", "most entries of the hash that were pending at one time; NULL: few"),
        Column("blocked_seconds", "double", "time during which entries of the hash waited, for any cause, seconds"),
    ),
    {
        "counts_not_negative": "least(keys_on_hash, dispatched, dispatched_error_max, hash_dispatched) >= 0",
        "share_is_a_share": "dispatched_share IS NULL OR dispatched_share BETWEEN 0 AND 1",
        "blocking_not_negative": "blocked_seconds >= 0",
    },
)

COVERAGE = TableSchema(
    "coverage",
    "A subscription of a topic partition, with the share of its rows that its verdicts rest on. An entry still waiting "
    "at the end of the trace does not count as lost.",
    (
        _RUN_KEY,
        *_GROUP,
        Column("completeness", "double", "rows_judged / (rows + rows_dropped), 0 to 1"),
        Column("rows", "bigint", "rows read, repeated rows counted once, publishes of the topic included"),
        Column("rows_judged", "bigint", "rows that could carry a verdict"),
        Column("rows_refused", "bigint", "rows that do not fit the rows before them, see quarantine"),
        Column(
            "rows_censored",
            "bigint",
            "rows from a time when the consumers are not known, rows of entries older than that, and rows of consumers "
            "whose join was not recorded; neither judged nor refused",
        ),
        _optional("gaps", "bigint", "rows that say that others were dropped; those of the topic included"),
        _optional("rows_dropped", "bigint", "rows that recorders dropped, by what they say"),
        _optional(
            "rows_censored_by_gaps",
            "bigint",
            "those of rows_censored that came in a gap, or after one and about entries that were open in it",
        ),
        *_moment("first_gap_ts", "when the first gap began; NULL: there is none", nullable=True),
        Column(
            "dispatches_undecided",
            "bigint",
            "dispatches while the owner of their hash was undecided, because consumers joined and left at the same "
            "time in an unknown order; their receivers are not judged",
        ),
        Column("dispatches_without_key", "bigint", "dispatches whose key was not recorded by then; not judged"),
        Column("dispatches_without_end", "bigint", "dispatches not recorded as written to the connection"),
        Column(
            "entries_without_publish", "bigint", "entries dispatched or acknowledged whose publish was not recorded"
        ),
        Column(
            "censored_never_dispatched",
            "bigint",
            "entries that waited for their first dispatch when the trace ended; they may be dispatched later",
        ),
        Column(
            "censored_never_acknowledged",
            "bigint",
            "entries dispatched and not acknowledged when the trace ended; they may be acknowledged later",
        ),
        Column("consumers_by_snapshot_only", "bigint", "consumers that only snapshots of the broker name"),
        Column("clock_steps_back", "bigint", "rows earlier than the row before by more than the recorder skew"),
        Column(
            "seq_missing",
            "bigint",
            "numbers between the first and last seq that no row has; recorders number all topics together, so gaps "
            "are normal and do not lower completeness",
        ),
        _optional(
            "intervals_left_out",
            "bigint",
            "intervals of waiting that blocking lacks, because others of their scope and cause cost more (setting "
            "blocking.intervals_max); metrics still counts those that are findings",
        ),
        _optional(
            "dispatches",
            "bigint",
            "dispatches recorded, those that could not be judged included; NULL, here and in the following columns: an "
            "older version of the audit wrote the row",
        ),
        _optional("dispatches_judged", "bigint", "dispatches that rules about order were applied to"),
        _optional(
            "order_verdict",
            "string",
            "nothing_sent: nothing was dispatched; kept: no rule about order was broken in dispatches_judged; "
            "not_provable: none could be judged, or findings are not provable; known_bug: broken in ways that match "
            "known bugs; broken",
        ),
        _optional(
            "progress",
            "string",
            "nothing_sent: nothing was dispatched; flowing: else; not_provable: the trace does not show "
            "which entries waited, or findings are not provable; held_up: see held_up_seconds; stalled: rules stalled "
            "or draining_stuck found that entries that could be sent were not",
        ),
        _optional(
            "held_up_seconds",
            "double",
            "longest time in which nothing was sent to any consumer although entries waited, seconds; times below "
            "blocking.stall_threshold_ms and expected causes do not count",
        ),
        _optional("held_up_cause", "string", "its cause, as in blocking"),
        _optional("held_up_by", "string", "name and number of the consumer that held it up; NULL: none did"),
        _optional(
            "expected_wait_seconds",
            "double",
            "the same for expected causes: a dispatch rate limit, delayed delivery, no connected consumer",
        ),
        _optional("expected_wait_cause", "string", "its cause, as in blocking"),
        _optional(
            "missing",
            "array<string>",
            f"what the trace lacks where an answer is not provable for that reason: {', '.join(MISSING)}",
        ),
        _optional(
            "order_held_back",
            "bigint",
            "findings about order (violations, known bugs and not provable ones) of the last minute of a window: the "
            "next window reports them, or finds what explains them; until then order_verdict is not_provable or worse",
        ),
        _optional(
            "progress_held_back",
            "bigint",
            "the same about progress, with the times in which nothing was sent to any consumer (see held_up_seconds)",
        ),
    ),
    {
        "completeness_is_a_share": "completeness BETWEEN 0 AND 1",
        "judged_are_rows": "rows_judged >= 0 AND rows_judged <= rows",
        "counts_not_negative": "least(rows_refused, rows_censored, dispatches_undecided, dispatches_without_key, "
        "dispatches_without_end, entries_without_publish, censored_never_dispatched, censored_never_acknowledged, "
        "consumers_by_snapshot_only, clock_steps_back, seq_missing) >= 0",
        "left_out_not_negative": "intervals_left_out >= 0",
        "gaps_not_negative": "least(gaps, rows_dropped, rows_censored_by_gaps) >= 0",
    },
)

PRODUCERS = TableSchema(
    "producers",
    "A producer of a topic partition, once for each subscription that its entries belong to.",
    (
        _RUN_KEY,
        *_GROUP,
        _optional("producer_name", "string", "name of the producer; NULL: not recorded"),
        Column("entries", "bigint", "entries published; a batch is one"),
        Column("messages", "bigint", "messages in them"),
        Column("batches", "bigint", "entries of more than one message"),
        Column("batches_inspected", "bigint", "batches for which the recorder wrote down the keys of the messages"),
        Column("mixed_batches", "bigint", "inspected batches with more than one key; a missing key counts as a key"),
        Column("keyless_entries", "bigint", "entries without a key"),
        Column(
            "chunked_entries",
            "bigint",
            "entries with the sequence id of the producer's entry before: chunks of one message. A last message that "
            "is sent again after an unload looks the same",
        ),
    ),
    {
        "batches_are_entries": "batches <= entries AND mixed_batches <= batches_inspected "
        "AND batches_inspected <= batches",
        "counts_not_negative": "least(entries, messages, mixed_batches, keyless_entries, chunked_entries) >= 0",
    },
)

CAPACITY = TableSchema(
    "capacity",
    "How near a subscription was to its limits, from one sample to the next.",
    (
        _RUN_KEY,
        *_GROUP,
        *_moment("from_ts", "when the sample before was taken"),
        *_moment("to_ts", "when this sample was taken"),
        Column("consumers", "bigint", "consumers connected"),
        Column("replay_size", "bigint", "entries in the replay queue; a lower bound where no snapshot reports it"),
        Column("replay_size_reported", "boolean", "whether a snapshot of the broker reports replay_size"),
        _optional("look_ahead_limit", "bigint", "replay_size at which the broker stops reading; NULL: no limit"),
        _optional("headroom", "bigint", "look_ahead_limit less replay_size"),
        Column("growth_per_second", "double", "growth of replay_size since the sample before, entries a second"),
        _optional("seconds_left", "double", "until look_ahead_limit is reached at this growth; NULL: it does not grow"),
        Column("ack_holes", "bigint", "ranges of acknowledged entries above mark-delete"),
        _optional("ack_holes_limit", "bigint", "managedLedgerMaxUnackedRangesToPersist: more holes are not persisted"),
        Column("mark_delete_gap", "bigint", "entries above mark-delete that were read"),
        Column("waiting", "bigint", "entries that could be sent if nothing blocked them"),
    ),
    {
        "sizes_not_negative": "least(consumers, replay_size, ack_holes, mark_delete_gap, waiting) >= 0",
        "looks_in_order": "to_ts_us > from_ts_us",
    },
)

QUARANTINE = TableSchema(
    "quarantine",
    "A row of the trace that could not be read or used, or (reason repeated_row) that was delivered again.",
    (
        _RUN_KEY,
        Column("reason", "string", "reason code"),
        Column("file", "string", "file or table that holds the row"),
        _optional("line", "bigint", "line of the file, counted from 1; NULL where the format has none"),
        _optional("raw", "string", "the row itself, as far as it could be read"),
        _optional("detail", "string", "what exactly was wrong, with the field and its value where known"),
    ),
    {
        "reason_given": "length(reason) > 0",
        "lines_count_from_one": "line IS NULL OR line >= 1",
    },
)

STATE = TableSchema(
    "state",
    "State of a subscription at the end of a window, from which the next window starts; runs has the window.",
    (
        _RUN_KEY,
        *_GROUP,
        Column("version", "bigint", "version of the payload; an audit reads its own version only"),
        Column("payload", "binary", "the state, readable by the replay only"),
    ),
    {"payload_given": "payload <> X''"},
)

REFUSED = TableSchema(
    "refused",
    "A row of the trace that the replay could not use; becomes a row of quarantine and is no table of its own.",
    (
        _RUN_KEY,
        *_GROUP,
        _optional("broker", "string", "recorder of the row, empty if it has no name; NULL: the topic has only one"),
        Column("seq", "bigint", "seq of the row"),
        Column("reason", "string", "reason code"),
        Column("detail", "string", "what was wrong"),
    ),
    {},
)

DIAGNOSES = TableSchema(
    "diagnoses",
    "What `dispatch-audit diagnose` says of one subscription from the statistics of a broker.",
    (
        _RUN_KEY,
        *_GROUP,
        *_moment("taken_ts", "when the last dump was taken, as far as it is known", nullable=True),
        Column("taken_by", "string", "what says when: name, content or age of the file, or none"),
        *_moment("last_ts", "latest timestamp in the dump; NULL: it has none", nullable=True),
        *_moment("diagnosed_ts", "when it was diagnosed"),
        Column("dumps", "bigint", "dumps of the subscription, each of one moment"),
        _optional("pulsar_version", "string", "release of the broker that was assumed; NULL: not known"),
        Column(
            "answer", "string", "whether messages flow: held_up, not_decidable, no_consumer, delivered, flowing, idle"
        ),
        Column("headline", "string", "the answer in a sentence"),
        Column("alarm", "boolean", "whether the dumps prove something that needs a look"),
        _optional("sign", "string", "the sign that says most (conf/known_bugs.toml); NULL: none was found"),
        _optional("certainty", "string", "of that sign: proved, or compatible; NULL: none was found"),
        _optional("known_bugs", "string", "known bugs that leave it; NULL: none"),
        Column("consumers", "array<string>", "names of the consumers that it is about"),
        _optional("shown", "string", "what the dumps show of it"),
        _optional("since", "string", "since when; NULL: the dumps do not say"),
        _optional("remedy", "string", "what an operator can do"),
        Column("other_signs", "array<string>", "the other signs that were found, each with its certainty"),
        _optional("consumers_connected", "bigint", "connected consumers; NULL: not known"),
        _optional("msg_backlog", "bigint", "entries in the backlog; NULL: not reported"),
        _optional("msg_in_replay", "bigint", "entries in the replay queue; NULL: not reported"),
        _optional("unacked_messages", "bigint", "unacknowledged messages; NULL: not reported"),
        _optional("sent", "bigint", "messages sent between the last two dumps; NULL: not known"),
        Column("files", "array<string>", "inputs that it comes from"),
    ),
    {
        "answer_known": _one_of("answer", ("held_up", "not_decidable", "no_consumer", "delivered", "flowing", "idle")),
    },
)
"""Written by diagnoses only, not by audits."""

TABLES: dict[str, TableSchema] = {
    table.name: table
    for table in (
        RUNS,
        METRICS,
        VIOLATIONS,
        BLOCKING,
        ASSIGNMENTS,
        DRAINING,
        CONSUMERS,
        CAPACITY,
        HOT_KEYS,
        COVERAGE,
        PRODUCERS,
        QUARANTINE,
        STATE,
    )
}

# What the replay returns: rows of the tables, and rows that become part of the table `quarantine`.
TRAVELLING = TABLES | {REFUSED.name: REFUSED}
