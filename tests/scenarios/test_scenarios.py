"""Every script of this folder prints what it says it prints.

`pytest tests/scenarios --rewrite` writes the scripts anew; only commit the changes if you understand what caused them.
"""

from pathlib import Path

import pytest
import scenario_runner

# Scripts that say what SEMANTICS demands and the audit does not do yet; --rewrite leaves them alone.
NOT_YET: dict[str, str] = {}


def _param(path: Path) -> object:
    marks = [pytest.mark.xfail(reason=NOT_YET[path.stem], strict=True)] if path.stem in NOT_YET else []
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", [_param(path) for path in sorted(Path(__file__).parent.glob("*.txt"))])
def test_script(path: Path, request: pytest.FixtureRequest) -> None:
    script = path.read_text(encoding="utf-8")
    told = scenario_runner.run(script)
    if request.config.getoption("rewrite", default=False) and path.stem not in NOT_YET:
        path.write_text(told, encoding="utf-8")
    else:
        assert told == script
