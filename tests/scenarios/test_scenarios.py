"""Every script of this folder prints what it says it prints.

`SCENARIOS_REWRITE=1 pytest tests/scenarios` writes the scripts anew; only commit the changes if you understand what
caused them.
"""

import os
from pathlib import Path

import pytest
import scenario_runner

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    script = path.read_text(encoding="utf-8")
    written = scenario_runner.run(script)
    # No option of pytest: it would take a second conftest.py, which hides the one that other tests import from.
    if os.environ.get("SCENARIOS_REWRITE") == "1":
        path.write_text(written, encoding="utf-8")
    else:
        assert written == script
