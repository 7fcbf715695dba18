"""docs/PERSONAL_DATA.md names every field that is recorded, so that none is stored that it does not tell of."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql.types import ArrayType, DataType, StructType

from dispatch_audit.pipeline.tables.schemas import DIAGNOSES, TABLES
from dispatch_audit.pipeline.trace.manifest import Manifest, Recorder
from dispatch_audit.pipeline.trace.schema import EVENT_SCHEMA, JSON_SCHEMA
from dispatch_audit.recording.admin.stats_fields import OF_CONSUMER, OF_CURSOR, OF_LEDGER, OF_SUBSCRIPTION

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "PERSONAL_DATA.md").read_text()
JAVA = ROOT / "recorder" / "src" / "main" / "java"
RECORDED, _, KEPT = PAGE.partition("## What audits keep of it")
TABLE = [line.split("|")[1:-1] for line in RECORDED.splitlines() if line.startswith("| `")]
NAMED = {name for first, *_ in TABLE for name in re.findall(r"`(\w+)`", first)}

# The last row of the table: numbers of the broker's, of entries and of consumers, and words of the format.
NUMBERS_AND_WORDS = {
    *re.findall(
        r"\w+",
        """
    share salt event phase reason priority seq seq_begin seq_end ledger_id entry_id batch_size batch_index size_bytes
    consumer consumer_id consumers redelivery_count ack_set ack_type positions permits ranges start end
    key_shared_mode allow_out_of_order allow_out_of_order_delivery entry_bucket_dispatch dropped dropped_events snapshot
    in_order available_permits avg_messages_per_entry unacked_messages
    consumers_as_before key_hash_ranges key_hash_ranges_changed begun_us waits_for
    filter_processed_msg_count filter_accepted_msg_count filter_rejected_msg_count filter_rescheduled_msg_count
    draining_hashes draining_hashes_count draining_hashes_cleared_total draining_hashes_unacked_messages hash
    blocked_attempts blocked_consumer_on_unacked_msgs blocked_subscription_on_unacked_msgs
    read_position mark_delete_position read_position_when_joining last_confirmed_entry individually_deleted
    type is_durable active waiting_read_op pending_read_ops subscription_have_pending_read
    subscription_have_pending_replay_read messages_consumed_counter number_of_entries_since_first_not_acked_message
    msg_in_replay msg_backlog msg_backlog_no_delayed msg_delayed msg_out_counter msg_rate_out msg_rate_redeliver
    message_ack_rate total_msg_expired non_contiguous_deleted_messages_ranges
    non_contiguous_deleted_messages_ranges_serialized_size
    dispatch_throttled_msg_events_by_subscription_limit dispatch_throttled_bytes_events_by_subscription_limit
    dispatch_throttled_msg_events_by_topic_limit dispatch_throttled_bytes_events_by_topic_limit
    dispatch_throttled_msg_events_by_broker_limit dispatch_throttled_bytes_events_by_broker_limit
    """,
    )
}


def fields_of(kind: DataType) -> Iterator[str]:
    """The names of a type's fields, and of those in them."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield field.name
            yield from fields_of(field.dataType)
    elif isinstance(kind, ArrayType):
        yield from fields_of(kind.elementType)


FORMAT = {
    "trace_format",
    *Manifest.model_fields,
    *Recorder.model_fields,
    *fields_of(EVENT_SCHEMA),
    *fields_of(JSON_SCHEMA),
}
STATISTICS = {*OF_CONSUMER.values(), *OF_CURSOR.values(), *OF_LEDGER.values(), *OF_SUBSCRIPTION.values()}


def written_in_java() -> set[str]:
    """The names of members that the recorder writes; camel case is a setting's, among `settings`."""
    text = "".join(path.read_text() for path in sorted(JAVA.rglob("*.java")))
    patterns = (r'\\"(\w+)\\":', r'member\("(\w+)"', r'\.put(?:Object|Array)?\("(\w+)"')
    found = {name for pattern in patterns for name in re.findall(pattern, text)}
    constants = dict(re.findall(r'static final String (\w+) = "(\w+)";', text))
    found |= {constants[name] for name in re.findall(r"member\(Settings\.(\w+)", text)}
    return {name for name in found if name == name.lower()}


def written_in_clients() -> set[str]:
    """The keys of rows and manifests that the wrapper of the client makes, and those that it sets aside."""
    files = [*sorted((ROOT / "recording" / "client").glob("*.py")), ROOT / "recording" / "trace_files.py"]
    nodes = [node for path in files for node in ast.walk(ast.parse(path.read_text()))]
    keys = [key for node in nodes if isinstance(node, ast.Dict) for key in node.keys]
    found = {str(key.value) for key in keys if isinstance(key, ast.Constant)}
    aside = {f"message_{name}" for name in found if name.startswith("key_")} - {"message_key_shared_mode"}
    return (found | aside) - {"callback", "message_listener"}


def test_every_field_of_the_format_is_told_of() -> None:
    assert not FORMAT - NAMED - NUMBERS_AND_WORDS


def test_every_field_that_is_written_is_told_of() -> None:
    java, clients = written_in_java(), written_in_clients()
    assert {"key_b64", "address", "producer_name", "sticky_hash", "consumer_name"} <= java
    assert {"key_b64", "message_key_b64", "producer_name", "consumer_name"} <= clients
    assert (STATISTICS | java | clients) - NAMED - NUMBERS_AND_WORDS == set()


def test_the_page_tells_of_nothing_else() -> None:
    assert {*FORMAT, *STATISTICS, *written_in_clients()} >= NAMED
    assert not NAMED & NUMBERS_AND_WORDS


def test_what_the_page_says_is_never_stored_is_not() -> None:
    column = {"recorder in the broker": 2, "`record-stats`": 3, "client wrapper": 4}
    written = {
        "recorder in the broker": written_in_java(),
        "client wrapper": written_in_clients(),
        "`record-stats`": STATISTICS,
    }
    for way, names in written.items():
        rows = [cells[0] for cells in TABLE if cells[column[way]].strip() == "never"]
        assert not names & {name for fields in rows for name in re.findall(r"`(\w+)`", fields)}, way


def test_the_settings_that_leave_fields_out_are_those_of_the_recorder() -> None:
    source = (JAVA / "dispatchaudit" / "recorder" / "Settings.java").read_text()
    constants = dict(re.findall(r'static final String (\w+) = "(\w+)";', source))
    (listed,) = re.findall(r"MAY_BE_LEFT_OUT = List\.of\((.*?)\)", source)
    named = re.findall(r"`LeaveOut=(\w+)`", PAGE)
    assert sorted(named) == sorted(constants[name] for name in listed.split(", "))


def test_the_tables_that_repeat_keys_and_names_are_told_of() -> None:
    first_cells = [line.split("|")[1] for line in KEPT.splitlines() if line.startswith("| `")]
    repeats = re.compile(r"key|raw|headline|(?:\w+_)?(?:consumer|producer|holder|owner)_name")
    found = {
        table.name for table in (*TABLES.values(), DIAGNOSES) if any(repeats.fullmatch(c.name) for c in table.columns)
    }
    assert {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)} == found
