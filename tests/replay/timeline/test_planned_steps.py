"""From where on the values of a row `settings` may be in force."""

import numpy as np
import pytest

from dispatch_audit.pipeline.packing.events import Code, no_events
from dispatch_audit.pipeline.packing.membership_rows import NEVER, TracePoint
from dispatch_audit.pipeline.packing.rows_aside import SettingsRow
from dispatch_audit.pipeline.replay.membership import steps
from dispatch_audit.pipeline.replay.membership.steps import PlannedSteps
from dispatch_audit.pipeline.replay.timeline.held_rows import HeldRows
from dispatch_audit.pipeline.replay.timeline.open_changes import OpenChanges

ROWS = 40
ROW_US = 10_000


@pytest.mark.parametrize(
    ("seq_begin", "announced"), [(30, TracePoint(30, 31 * ROW_US)), (39, TracePoint(39, 40 * ROW_US))]
)
def test_other_values_may_be_in_force_after_a_row_and_up_to_the_time_of_the_next(
    seq_begin: int, announced: TracePoint
) -> None:
    """Not at the time of the row that says so: what was sent in between would come before that."""
    held, seq = HeldRows(), np.arange(ROWS)
    rows = no_events()._replace(seq=seq, ts_us=ROW_US * seq, code=np.full(ROWS, Code.OTHER))
    held.push(rows, np.full(ROWS, -1))
    planned = PlannedSteps(held, OpenChanges(held, 0, 10), skew_us=20 * ROW_US, complete_from_start=True)
    row = SettingsRow(ROWS, ROW_US * ROWS, seq_begin, ROWS, False, False, False, "{}", "{}")
    planned.add_settings(row)
    here = TracePoint(row.seq, row.ts_us)
    assert planned.take(NEVER, ()) == [steps.SettingsSide(announced, row, False), steps.SettingsSide(here, row, True)]
