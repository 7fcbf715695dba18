"""Renders pages: a template, with styles, script and charts inside, and nothing to be fetched.

Everything from the trace is text: the template escapes it, and charts have it in JSON that no HTML parser takes for
markup. The policy of the page allows its own two scripts by their digests and no connection, so even a mistake here
could not run or send anything.
"""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import Any, Final, Protocol

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from dispatch_audit.pipeline.report.page.model import Page, Section
from dispatch_audit.pipeline.report.page.vega_bundle import STATIC
from dispatch_audit.pipeline.report.wording import printable, share

# What could end the script element that holds the JSON.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


_RUN: Final = "run.html.j2"


class AnyPage(Protocol):
    """What every page has; the rest is for its own template."""

    @property
    def sections(self) -> Sequence[Section]:
        """The sections below the answer."""

    @property
    def themes(self) -> Mapping[str, Any]:
        """The look of the charts in light and dark."""


def rendered(page: Page) -> str:
    """Returns the page of a run as one HTML document."""
    stories = {finding.anchor: finding.story for finding in page.findings if finding.story}
    return rendered_as(_RUN, page, {"timeline": page.timeline, "stories": stories})


def template(name: str) -> Template:
    """Returns a template that escapes what it prints and has the style of all pages.

    Args:
        name: its file among the static ones.
    """
    environment = Environment(
        loader=FileSystemLoader(STATIC),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters |= {"share": share, "words": lambda name: name.replace("_", " ")}
    environment.globals["style"] = Markup(_static("page.css"))
    return environment.get_template(name)


def rendered_as(name: str, page: AnyPage, more: Mapping[str, Any] | None = None) -> str:
    """Returns a page as one HTML document.

    Args:
        name: the file of its template among the static ones; it extends `base.html.j2`.
        page: what the template lays out.
        more: further data for its script, which has the charts of the sections anyway.
    """
    scripts = [_static("vega.js"), _static("page.js")]
    return template(name).render(
        page=page,
        scripts=[Markup(script) for script in scripts],
        digests=[_digest(script) for script in scripts],
        data=Markup(_json({**_charts(page), **(more or {})})),
    )


def _charts(page: AnyPage) -> dict[str, Any]:
    figures = [figure for section in page.sections for _, figures in section.parts for figure in figures]
    return {"themes": page.themes, "charts": {figure.name: figure.spec for figure in figures}}


def _printable(value: Any) -> Any:
    """Returns what the template prints; clients choose names, which may hold characters that control the text."""
    return printable(value) if type(value) is str else value


def _json(value: Any) -> str:
    """Returns JSON in ASCII for a script element."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


@cache
def _static(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return "sha256-" + b64encode(sha256(script.encode()).digest()).decode()
