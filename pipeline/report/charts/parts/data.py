"""The input of the charts: rows as mappings, times in milliseconds, and names that are safe to draw."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt

from dispatch_audit.pipeline.report.wording import printable

Row = dict[str, Any]
Rows = Iterable[Mapping[str, Any]] | Any
"""Rows of a table: mappings, rows of Spark, or a frame of pandas."""

# Longer names would take the place of the chart; tooltips and tables have them in full.
_NAME_CHARACTERS = 24


def records(rows: Rows) -> list[Row]:
    """Returns rows as mappings. What pandas writes as NaN or NaT becomes None."""
    if hasattr(rows, "to_dict"):
        rows = rows.to_dict("records")
    return [{name: _value(value) for name, value in _mapping(row).items()} for row in rows]


def _mapping(row: Any) -> Mapping[str, Any]:
    return row.asDict() if hasattr(row, "asDict") else row  # type: ignore[no-any-return]  # rows of Spark, or mappings


def _value(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def inline(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Returns rows as the data of a chart.

    They are set after the constructor, which would hold each value against the schema: 0.2 s for 2,000 rows.
    """
    data = alt.InlineData(values=[])
    data.values = list(rows)
    return data


def ms(ts_us: float) -> float:
    """Returns a time as Vega takes it: milliseconds since 1970 UTC."""
    return ts_us / 1000


def clipped(text: str, characters: int = _NAME_CHARACTERS) -> str:
    """Returns a text without control characters, cut to a length."""
    text = printable(text)
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def cost(message_seconds: float) -> str:
    """Returns message-seconds as text: `14,670.7`, `0.24`."""
    return f"{message_seconds:,.1f}" if message_seconds >= 10 else f"{message_seconds:.2f}"


def consumer_label(number: Any, name: Any) -> str:
    """Returns a consumer by name and number, because names may be equal (Q19), such as `c7 #28`."""
    if number is None:
        return "nobody"
    return f"{clipped(str(name), 16)} #{int(number)}" if name else f"#{int(number)}"


def subscription_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the topic and the subscription of a row."""
    return row["topic"], row["subscription"]
