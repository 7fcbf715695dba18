"""Recordings of a broker in known states (by polls, and by the recorder in it) lead to the answer of its dumps."""

import gzip
import re
import shutil
import sys
from pathlib import Path

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


def test_the_list_of_draining_hashes_says_how_many_they_are(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(ROOT / "draining-4.2.4" / "trace", trace)
    for log in trace.rglob("*.jsonl.gz"):
        text = re.sub(
            r'"draining_hashes_(count|unacked_messages)":\d+,', "", gzip.decompress(log.read_bytes()).decode()
        )
        log.write_bytes(gzip.compress(text.encode()))
    whole, without = (
        diagnose(inputs_of([str(path)], sys.stdin.buffer)).diagnoses for path in (ROOT / "draining-4.2.4/trace", trace)
    )
    assert '"draining_hashes_count"' not in text
    assert without[0].reasons == whole[0].reasons
    assert without[0].facts is not None
    assert any(consumer.draining_entries for consumer in without[0].facts.consumers)
