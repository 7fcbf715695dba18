"""Hooks of mkdocs: pages and links that lie outside of docs/, and Markdown as GitHub reads it.

The README becomes the page `index.md`, and CONTRIBUTING a page of its own. Other files of the repository are no part of
the site: a link to one becomes its path. Python-Markdown differs from CommonMark in what the pages rely on: it takes
`#1` for a heading, a list needs an empty line above it, and a list within a list four spaces.
"""

import re
from collections.abc import Callable
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).resolve().parents[1]
_PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}
"""The pages of the site that lie at the top of the repository, and their names in the site."""
_CONTRACT: Final = "contract/"
_BOOST_OF_CONTRACT: Final = 0.2
"""The contract has every word of the subject many times; who searches for one wants the page that explains it first."""

_NUMBER_SIGN = re.compile(r"^((?:[-*] )?)#(?=\d)", re.MULTILINE)
# A line of a paragraph, and the first item of a list below it.
_LIST_BELOW_TEXT = re.compile(r"^((?![-*] |\d+\. |[#|> ]).+\n)(?=(?:[-*]|\d+\.) )", re.MULTILINE)
_NESTED = re.compile(r"^ {2,3}(?=(?:[-*]|\d+\.) )", re.MULTILINE)
_FENCED_CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_FLOWCHART = re.compile(r"^```mermaid\nflowchart TD\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NODE = re.compile(r'\b(\w+)\["([^"]+)"\]')
_ARROW = re.compile(r"^ *(\w+) --> (\w+)$", re.MULTILINE)
_INLINE_CODE = re.compile(r"(`[^`\n]*`)")
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^):#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages from the top of the repository."""
    for source, name in _PAGES.items():
        files.append(File.generated(config, name, content=(_ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links to files of the repository into links of the site, or into paths; the search ranks the page."""
    if page.file.src_uri.startswith(_CONTRACT):
        page.meta["search"] = {"boost": _BOOST_OF_CONTRACT}
    places = {name: source for source, name in _PAGES.items()}
    folder = dirname(places.get(page.file.src_uri, f"docs/{page.file.src_uri}"))

    def linked(found: re.Match[str]) -> str:
        mark, text, target, anchor = found.groups()
        path = normpath(f"{folder}/{target}" if folder else target)
        name = path.removeprefix("docs/") if path.startswith("docs/") else _PAGES.get(path)
        if name is None:
            return f"{text} (`{path}`)"
        return f"{mark}[{text}]({relpath(name, dirname(page.file.src_uri) or '.')}{anchor or ''})"

    def written(text: str) -> str:
        text = _NESTED.sub("    ", _LIST_BELOW_TEXT.sub(r"\1\n", text))
        return _outside(_INLINE_CODE, _NUMBER_SIGN.sub(r"\1\#", text), lambda part: _LINK.sub(linked, part))

    return _outside(_FENCED_CODE, _FLOWCHART.sub(_imports, markdown), written)


def _imports(found: re.Match[str]) -> str:
    """Returns a drawing of GitHub's as a table: drawing it here would take 3 MB of JavaScript."""
    labels = dict(_NODE.findall(found[1]))
    drawn: dict[str, list[str]] = {name: [] for name in labels}
    for above, below in _ARROW.findall(_NODE.sub(r"\1", found[1])):
        drawn[above].append(labels[below].partition(" · ")[0])
    rows = (
        f"| `{room}` | {what} | {', '.join(f'`{name}`' for name in drawn[node])} |"
        for node, (room, _, what) in ((node, label.partition(" · ")) for node, label in labels.items())
    )
    return "\n".join(["| room | what happens there | imports |", "|---|---|---|", *rows])


def _outside(code: re.Pattern[str], text: str, changed: Callable[[str], str]) -> str:
    """Returns a text with everything changed but what the pattern, a group, finds."""
    return "".join(part if at % 2 else changed(part) for at, part in enumerate(code.split(text)))
