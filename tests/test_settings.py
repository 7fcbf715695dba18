"""Settings that have more than one way to be said."""

from pathlib import Path

import pytest

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.settings import load_settings


@pytest.mark.parametrize(("said", "limit"), [("25", 25), ("0", 0), ('"all"', 0)])
def test_a_limit_on_findings_may_be_none(tmp_path: Path, said: str, limit: int) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"[report]\nfindings_per_rule_max = {said}\n")
    assert load_settings(path).report.findings_per_rule_max == limit


@pytest.mark.parametrize("said", ["-1", '"some"'])
def test_other_limits_on_findings_are_refused(tmp_path: Path, said: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f"[report]\nfindings_per_rule_max = {said}\n")
    with pytest.raises(UsageError, match="findings_per_rule_max"):
        load_settings(path)
