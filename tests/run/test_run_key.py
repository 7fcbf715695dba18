import re
from typing import Any

import pytest

from dispatch_audit.pipeline.run import run_key
from dispatch_audit.pipeline.run.run_key import run_key_of
from dispatch_audit.pipeline.settings import load_settings

SETTINGS = load_settings()
QUESTION: dict[str, Any] = {
    "inputs": ["night/a", "night/b"],
    "profile": "pulsar-4.2.4",
    "settings": SETTINGS,
    "window_us": (None, 5),
}


def test_equal_questions_have_one_key() -> None:
    assert run_key_of(**QUESTION) == run_key_of(**QUESTION)
    assert re.fullmatch("[0-9a-f]{16}", run_key_of(**QUESTION))


@pytest.mark.parametrize(
    "change",
    [
        {"inputs": ["night/a"]},
        {"inputs": ["night/a, night/b"]},
        {"profile": "pulsar-4.0.7"},
        {"settings": SETTINGS.model_copy(update={"trace": SETTINGS.trace.model_copy(update={"recorder_skew_ms": 11})})},
        {"window_us": (5, None)},
    ],
    ids=str,
)
def test_another_question_has_another_key(change: dict[str, Any]) -> None:
    assert run_key_of(**{**QUESTION, **change}) != run_key_of(**QUESTION)


def test_another_version_of_the_code_has_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = run_key_of(**QUESTION)
    monkeypatch.setattr(run_key, "code_version", lambda: "0.0.0")
    assert run_key_of(**QUESTION) != before
