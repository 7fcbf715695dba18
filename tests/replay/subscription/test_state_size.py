"""What is open at the end of a window travels as one cell of a table, which holds 2 GB."""

import pytest
from local_replay import AUTO_SPLIT, Log, chunks_of, named_in

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.groups.replay_group import replay_group
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.state.index import empty_table
from dispatch_audit.pipeline.replay.state.kinds import ENTRY
from dispatch_audit.pipeline.replay.state.state import free_slots
from dispatch_audit.pipeline.settings import load_settings

CELL_BYTES_MAX = 2**31 - 1


def _bytes_of_an_open_entry(entries: int) -> float:
    """In the arrays of the core, of which it fills all; nothing is gained by compression."""
    return ENTRY.dtype.itemsize + (empty_table(entries).nbytes + free_slots(entries).nbytes) / entries


def _state_of_a_hung_consumer(entries: int) -> int:
    """Bytes of the state of a subscription whose only consumer was sent so many entries and acknowledged none."""
    log = Log()
    log.join(1)
    for entry in range(entries):
        log.publish(entry)
        log.dispatch(1, entry)
    config = ReplayConfig(profile_for("4.0.8", AUTO_SPLIT), "4.0.8", AUTO_SPLIT, 10_000, 1_000_000)
    (group,) = named_in([log.rows])
    chunks = sorted(chunks_of([log.rows], config)[group], key=lambda chunk: chunk.first_seq)
    found = dict(replay_group(group, chunks, config, 0, keep_state=True))
    return len(found["state"]["payload"][0])


def test_the_limit_on_open_entries_is_reached_before_a_state_fills_a_cell() -> None:
    limit = load_settings().limits.open_entries_max
    assert _bytes_of_an_open_entry(limit) * limit < CELL_BYTES_MAX


@pytest.mark.heavy
def test_an_open_entry_adds_no_more_to_a_state_than_the_core_keeps_of_it() -> None:
    few, many = 2_000, 12_000
    grown = _state_of_a_hung_consumer(many) - _state_of_a_hung_consumer(few)
    assert 0 < grown < (many - few) * _bytes_of_an_open_entry(many)
