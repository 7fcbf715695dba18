"""Every row that was spoilt is accounted for, and the benchmark would see one that is not."""

from pathlib import Path

import pytest

from benchmarks.reliability_parts.audited import Means
from benchmarks.reliability_parts.bad_rows import bad_rows


# The gate has each kind of bad row by itself (tests/trace); this draws hundreds of them.
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_no_row_is_lost(tmp_path: Path) -> None:
    found = bad_rows(Means(), tmp_path / "spoilt", 600, 1)
    assert found["lost"] == 0
    assert found["bad_rows_in"] == found["audited"] + found["quarantined"] > 600
    # Some damage leaves a row that can be audited.
    assert found["quarantined"] > 200
