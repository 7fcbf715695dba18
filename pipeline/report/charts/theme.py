"""The look of all charts, light and dark: one palette, thin lines, labels at the marks instead of legends.

The series colours are those of Okabe and Ito ("Color Universal Design", 2008), which people with any colour vision
tell apart, darkened or lightened for the background. Nothing is shown by colour alone: shape, dash, position or a label
repeats it.
"""

from collections.abc import Mapping
from typing import Any, Literal

import altair as alt

from dispatch_audit.pipeline.contract.severity import Severity

Mode = Literal["light", "dark"]

SEVERITY_COLOURS: Mapping[Severity, str] = {
    "violation": "#d1350f",
    "known_bug": "#c98500",
    "not_provable": "#8a63d2",
    "permitted": "#1f8f80",
    "info": "#7a8794",
}

_WIDTH = 640
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_SERIES: Mapping[Mode, list[str]] = {
    "light": ["#0072b2", "#d55e00", "#009e73", "#b65a8e", "#c98500", "#3a9bd6", "#7a5195", "#6b7785"],
    "dark": ["#4ba3e3", "#f0803c", "#2fbf93", "#d98bb8", "#e6a92b", "#7cc4f0", "#a98fd0", "#98a4b3"],
}
# Ink, quiet ink, hairlines, and what is wrong.
_INK: Mapping[Mode, tuple[str, str, str, str]] = {
    "light": ("#1c2128", "#57616d", "#dfe3e8", "#d1350f"),
    "dark": ("#e6e9ed", "#9aa5b1", "#343b44", "#ff7a54"),
}


def config(mode: Mode) -> dict[str, Any]:
    """Returns the configuration of Vega-Lite for a light or a dark background."""
    ink, quiet, line, wrong = _INK[mode]
    series = _SERIES[mode]
    return {
        "background": "transparent",
        "font": _FONT,
        "padding": {"left": 2, "right": 8, "top": 4, "bottom": 2},
        "view": {"stroke": None, "continuousWidth": _WIDTH, "discreteWidth": _WIDTH},
        "axis": {
            "labelColor": quiet,
            "titleColor": quiet,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
            "gridColor": line,
            "domainColor": line,
            "tickColor": line,
            "labelOverlap": True,
            "labelSeparation": 8,
            "labelLimit": 110,
        },
        "axisY": {
            "domain": False,
            "ticks": False,
            "titleAlign": "left",
            "titleAngle": 0,
            "titleBaseline": "bottom",
            "titleX": 0,
            "titleY": -6,
        },
        "axisX": {"grid": False},
        "header": {"labelColor": ink, "labelFontSize": 12, "labelAnchor": "start", "labelLimit": 560, "title": None},
        "legend": {
            "orient": "top",
            "direction": "horizontal",
            "title": None,
            "labelColor": quiet,
            "labelFontSize": 11,
            "offset": 22,
            "symbolSize": 70,
            "columns": 3,
        },
        "range": {"category": series},
        "text": {"color": ink, "fontSize": 11},
        "bar": {"color": series[0]},
        "area": {"color": series[0]},
        "line": {"color": series[0]},
        "point": {"color": series[0], "filled": True, "size": 60},
        "rect": {"color": series[0]},
        "rule": {"color": series[0]},
        "style": {
            "label": {"color": ink, "fontSize": 11},
            "quiet": {"color": quiet, "fontSize": 11},
            "guide": {"color": quiet, "strokeWidth": 1},
            "limit": {"color": wrong, "strokeWidth": 1.5, "strokeDash": [6, 3]},
            "wrong": {"color": wrong},
            "wrong_label": {"color": wrong, "fontSize": 11},
            "second": {"color": series[1]},
        },
    }


def use(mode: Mode = "light") -> None:
    """Makes this the look of all charts of the process; for notebooks."""
    # Altair has types for each key of a theme, and `config` returns a plain dictionary.
    alt.theme.register(f"dispatch_audit_{mode}", enable=True)(lambda: alt.theme.ThemeConfig(config=config(mode)))  # type: ignore[typeddict-item]
