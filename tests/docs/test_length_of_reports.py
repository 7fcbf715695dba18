"""The text report of a trace fits a page, unless asked for more."""

import re
from pathlib import Path

import pytest
from traces_of_docs import BAD, HEAVY, HUNG, JOIN_LEAVE, MIXED, NAMES, UNBLOCKED

# With the lines about tables and time, which stand at the end of the report of all traces.
LINES_MAX = 60 - 2

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("docs")]


@pytest.mark.parametrize("name", [HEAVY, HUNG, JOIN_LEAVE, BAD, UNBLOCKED, NAMES, MIXED])
def test_the_report_of_a_trace_fits_a_page(name: str, audited_traces: Path) -> None:
    # The last lines of a trace are the answer on progress and an empty one.
    lines = (audited_traces / "report.txt").read_text().splitlines()
    begin = next(at for at, line in enumerate(lines) if re.search(rf"^Trace .*[ /]{re.escape(name)}$", line))
    length = next(at for at, line in enumerate(lines[begin:]) if line.startswith("PROGRESS ")) + 2
    assert 15 < length <= LINES_MAX
