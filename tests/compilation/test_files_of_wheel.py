"""An installation says why the compiled code of its wheel is of no use."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from dispatch_audit.pipeline.compilation import files_of_wheel
from dispatch_audit.pipeline.compilation.files_of_wheel import MADE_FOR, environment, version_of, why_none_fits

HERE = environment()


@pytest.mark.parametrize(
    ("made_for", "reason"),
    [
        (None, "this installation brings no compiled code along"),
        ({**HERE, "numba": "0.1"}, f"the compiled code is for numba 0.1, here is {HERE['numba']}"),
        ({**HERE, "Python": "3.9"}, f"the compiled code is for Python 3.9, here is {HERE['Python']}"),
        ({**HERE, "machine": "linux vax"}, f"the compiled code is for machine linux vax, here is {HERE['machine']}"),
        (HERE, "the sources were changed after the build"),
    ],
)
def test_what_does_not_fit_is_named(
    made_for: Mapping[str, str] | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if made_for is not None:
        (tmp_path / MADE_FOR).write_text(json.dumps(made_for))
    monkeypatch.setattr(files_of_wheel, "COMPILED", tmp_path)
    assert why_none_fits() == reason


@pytest.mark.parametrize("name", sorted(HERE))
def test_code_for_another_environment_has_another_folder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = version_of([], "")
    monkeypatch.setattr(files_of_wheel, "environment", lambda: {**HERE, name: "other"})
    assert version_of([], "") != before


def test_code_of_other_sources_or_constants_has_another_folder(tmp_path: Path) -> None:
    source = tmp_path / "source.py"
    source.write_text("a")
    versions = {version_of([source], ""), version_of([source], "1")}
    source.write_text("b")
    assert len(versions | {version_of([source], "")}) == 3
