"""The names and values of rows `settings` (TRACE_FORMAT, "Settings").

Names are those of broker.conf, and a few of format 1 for what only policies can set. The audit keeps other names, but
does not use them.
"""

import json
import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from dispatch_audit.pipeline.contract.setting_kinds import NUMBERS, SWITCHES

Value: TypeAlias = bool | int | float | str | None

# Longer numbers are beyond every setting.
_NUMBER: Final = re.compile(r"-?\d{1,18}(\.\d{1,18})?", re.ASCII)
_WORDS: Final[Mapping[str, bool]] = {"true": True, "false": False}


def is_possible(name: str, text: str | None) -> bool:
    """Whether a setting may have this value; None stands for the default of the release."""
    if text is None:
        return True
    return (name not in NUMBERS or _NUMBER.fullmatch(text) is not None) and (name not in SWITCHES or text in _WORDS)


def values_of(texts: Mapping[str, str | None]) -> dict[str, Value]:
    """The values that texts stand for, of rows that passed the checks."""
    return {name: None if text is None else _value(text) for name, text in texts.items()}


def _value(text: str) -> Value:
    if text in _WORDS:
        return _WORDS[text]
    if _NUMBER.fullmatch(text) is None:
        return text
    return float(text) if "." in text else int(text)


def as_json(texts: Mapping[str, str | None]) -> str:
    """The values that texts stand for as a JSON object, the names in their order."""
    return json.dumps(dict(sorted(values_of(texts).items())))
