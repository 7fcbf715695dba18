"""Recordings of a broker in known states (by polls, and by the recorder in it) lead to the answer of its dumps."""

import sys

import pytest
from test_states_of_a_broker import ROOT, STATES, diagnosed

from dispatch_audit.pipeline.statistics.diagnose import diagnose
from dispatch_audit.pipeline.statistics.files import inputs_of


@pytest.mark.parametrize("recording", ["polls", "trace"])
@pytest.mark.parametrize("name", STATES)
def test_a_recording_leads_to_the_answer_of_the_dumps(name: str, recording: str) -> None:
    (found,) = diagnose(inputs_of([str(ROOT / name / recording)], sys.stdin.buffer)).diagnoses
    dumps, expected = diagnosed(name, 1, 2)

    assert (found.is_alarm, found.release) == (dumps.is_alarm, expected["pulsar_version"])
    if dumps.is_alarm:
        first, same = found.reasons[0], dumps.reasons[0]
        assert (found.answer, first.name, first.certainty) == (dumps.answer, same.name, same.certainty)
        assert first.consumers == same.consumers
