"""The drawing of the rooms in docs/ARCHITECTURE.md is that of the imports.

`DOCS_REWRITE=1 pytest tests/layout/test_drawing.py` draws it anew.
"""

import ast
import os
import re
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

from test_imports import IMPORTS, MODULES, PACKAGE, PACKAGES, ROOT

PAGE: Final = ROOT / "docs" / "ARCHITECTURE.md"
DRAWING: Final = re.compile(r"```mermaid\nflowchart TD\n.*?```\n", re.DOTALL)
OF_ONE_MODULE: Final = {
    "pipeline/audit.py": "the order of the work",
    "replay/checkpoint.py": "the checkpoint of a subscription",
    "replay/config.py": "the configuration of a replay",
    "replay/durations.py": "how long things take, each with its reason",
}
"""Boxes that are no folders, and what stands in them."""


def room_of(module: str) -> str:
    """The box of a module: a folder of the top, of `pipeline` or of `replay`; empty for what everybody imports."""
    parts = module.removeprefix(PACKAGE).split(".")
    if parts[0] != "pipeline":
        return f"{parts[0]}/"
    of_one_module = "/".join(parts[-2:]) + ".py"
    if of_one_module in OF_ONE_MODULE:
        return of_one_module
    if parts[:2] == ["pipeline", "replay"]:
        return f"replay/{parts[2]}/"
    inner = len(parts) > 2 or module in PACKAGES
    return f"pipeline/{parts[1]}/" if len(parts) > 1 and inner else ""


def label(room: str) -> str:
    """The first clause of what a room says of itself."""
    if room in OF_ONE_MODULE:
        return OF_ONE_MODULE[room]
    folder = ROOT / room.replace("replay/", "pipeline/replay/")
    said = ast.get_docstring(ast.parse((Path(folder) / "__init__.py").read_text(encoding="utf-8"))) or ""
    clause = re.split(r"[:;,(]|\.\s|\.$", said)[0].strip()
    return clause[0].lower() + clause[1:]


def arrows() -> dict[str, list[str]]:
    """The rooms that each room imports, without those that it imports through another one anyway."""
    found: dict[str, set[str]] = {}
    for module in sorted(MODULES.keys() - PACKAGES):
        found.setdefault(room_of(module), set()).update(room_of(name) for name in IMPORTS[module])
    # Sorted, so that equal imports give an equal drawing.
    direct = {room: sorted(others - {room, ""}) for room, others in found.items() if room}
    below: dict[str, set[str]] = {}
    for room in TopologicalSorter(direct).static_order():
        below[room] = {*direct.get(room, ())}.union(*(below[other] for other in direct.get(room, ())))
    return {
        room: [other for other in others if not any(other in below[between] for between in others)]
        for room, others in direct.items()
    }


def drawing() -> str:
    found = arrows()
    # From the top to the bottom, so that the drawing is read as data flows against it.
    order = [*TopologicalSorter(found).static_order()][::-1]
    named: set[str] = set()

    def box(room: str) -> str:
        """The name of a box, with what stands in it where it comes first."""
        name, first = re.sub(r"\W+", "_", room).strip("_"), room not in named
        named.add(room)
        return f'{name}["{room} · {label(room)}"]' if first else name

    lines = [f"  {box(room)} --> {box(other)}" for room in order for other in found.get(room, ())]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```", ""])


def test_the_drawing_is_that_of_the_imports() -> None:
    page = PAGE.read_text(encoding="utf-8")
    if "DOCS_REWRITE" in os.environ:
        PAGE.write_text(DRAWING.sub(lambda _: drawing(), page), encoding="utf-8")
        return
    drawn = DRAWING.search(page)
    assert drawn is not None
    assert drawn.group() == drawing(), "DOCS_REWRITE=1 pytest tests/layout/test_drawing.py draws it anew"
