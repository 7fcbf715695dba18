"""Imports go downwards: a room imports from rooms below it, and no circle of modules is left within one.

`ROOMS` lists the rooms from the top to the bottom; docs/ARCHITECTURE.md draws them. A module belongs to the longest
entry that its name begins with.
"""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from dispatch_audit.pipeline.replay.state.compiled import COMPILED_ROOMS, sources

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "dispatch_audit."
ROOMS = (
    "dispatch_audit.jobs.nightly_audit",
    "dispatch_audit.jobs.program",
    "dispatch_audit.jobs.cli",
    "dispatch_audit.jobs.pytest_plugin",
    "dispatch_audit.jobs.commands",
    "dispatch_audit.jobs.api",
    "dispatch_audit.jobs",
    "dispatch_audit.jobs.engines",
    "dispatch_audit.pipeline.audit",
    "dispatch_audit.pipeline.validation",
    "dispatch_audit.pipeline.compile_ahead",
    "dispatch_audit.pipeline.convert",
    "dispatch_audit.pipeline.simulate.comparison",
    "dispatch_audit.pipeline.simulate",
    "dispatch_audit.pipeline.simulate.output",
    "dispatch_audit.pipeline.simulate.workload",
    "dispatch_audit.pipeline.simulate.clients",
    "dispatch_audit.pipeline.simulate.dispatcher",
    "dispatch_audit.pipeline.simulate.policies",
    "dispatch_audit.pipeline.simulate.state",
    "dispatch_audit.pipeline.explain",
    "dispatch_audit.pipeline.pages",
    "dispatch_audit.pipeline.statistics",
    "dispatch_audit.pipeline.report.page",
    "dispatch_audit.pipeline.report.text",
    "dispatch_audit.pipeline.report.charts",
    "dispatch_audit.pipeline.report.ci",
    "dispatch_audit.pipeline.report.charts.parts",
    "dispatch_audit.pipeline.report",
    "dispatch_audit.pipeline.run",
    "dispatch_audit.pipeline.windows",
    "dispatch_audit.pipeline.bad_rows",
    "dispatch_audit.pipeline.plan",
    "dispatch_audit.pipeline.groups",
    "dispatch_audit.pipeline.replay.clients",
    "dispatch_audit.pipeline.replay.verdicts",
    "dispatch_audit.pipeline.replay.checkpoint",
    "dispatch_audit.pipeline.replay.trial",
    "dispatch_audit.pipeline.replay.subscription",
    "dispatch_audit.pipeline.replay.membership",
    "dispatch_audit.pipeline.replay.evidence",
    "dispatch_audit.pipeline.replay.snapshots",
    "dispatch_audit.pipeline.replay.config",
    "dispatch_audit.pipeline.replay.dispatcher",
    "dispatch_audit.pipeline.replay.timeline",
    "dispatch_audit.pipeline.replay.traffic",
    "dispatch_audit.pipeline.replay.blocking",
    "dispatch_audit.pipeline.replay.rules",
    "dispatch_audit.pipeline.replay.state",
    "dispatch_audit.pipeline.replay.settings",
    "dispatch_audit.pipeline.replay",
    "dispatch_audit.pipeline.replay.durations",
    "dispatch_audit.pipeline.recorders",
    "dispatch_audit.pipeline.packing",
    "dispatch_audit.pipeline.assignment",
    "dispatch_audit.pipeline.assignment.selectors",
    "dispatch_audit.pipeline.assignment.ranges",
    "dispatch_audit.pipeline.tables",
    "dispatch_audit.pipeline.trace.quarantine",
    "dispatch_audit.pipeline.trace.workers",
    "dispatch_audit.pipeline.trace.scan",
    "dispatch_audit.pipeline.trace.columnar",
    "dispatch_audit.pipeline.trace.lines",
    "dispatch_audit.pipeline.trace.checks",
    "dispatch_audit.pipeline.trace",
    "dispatch_audit.pipeline.engine",
    "dispatch_audit.pipeline.spark_errors",
    "dispatch_audit.pipeline.settings",
    "dispatch_audit.pipeline.storage",
    "dispatch_audit.pipeline.compilation",
    "dispatch_audit.pipeline.cache_folder",
    "dispatch_audit.pipeline.arrow_stream",
    "dispatch_audit.pipeline.contract",
    "dispatch_audit.udfs",
    "dispatch_audit.recording.admin",
    "dispatch_audit.recording.client",
    "dispatch_audit.recording",
    "dispatch_audit.pipeline.checkpoint_objects",
    "dispatch_audit.pipeline.checkpointed",
    "dispatch_audit.pipeline.messages",
    "dispatch_audit.pipeline.errors",
    "dispatch_audit.pipeline.plural",
    "dispatch_audit.pipeline.utc",
    "dispatch_audit.pipeline",
)
MODULES_PER_FOLDER_MAX = 14


def modules() -> dict[str, Path]:
    """The modules that the package installs, by name."""
    files = (path for top in ("jobs", "pipeline", "recording", "udfs") for path in sorted((ROOT / top).rglob("*.py")))
    named = {PACKAGE + ".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in files}
    return {name.removesuffix(".__init__"): path for name, path in named.items()}


MODULES = modules()


def imports(path: Path) -> Iterator[str]:
    """The modules of this package that a file imports, those that only type checkers see included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module in MODULES:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module for name in inner)


IMPORTS = {name: set(imports(path)) for name, path in MODULES.items()}
PACKAGES = {name for name, path in MODULES.items() if path.name == "__init__.py"}


def room_of(module: str) -> str:
    return max((room for room in ROOMS if f"{module}.".startswith(f"{room}.")), key=len)


# The page of a package hands on what its own rooms hold.
@pytest.mark.parametrize("module", sorted(MODULES.keys() - PACKAGES))
def test_a_module_imports_from_its_own_room_and_from_rooms_below_only(module: str) -> None:
    height = ROOMS.index(room_of(module))
    upwards = {name: room_of(name) for name in IMPORTS[module] if ROOMS.index(room_of(name)) < height}

    assert not upwards, f"{module} ({room_of(module)}) imports upwards"


@pytest.mark.parametrize("room", ROOMS)
def test_the_modules_of_a_room_import_each_other_in_no_circle(room: str) -> None:
    # A package's own page imports what it hands on.
    within = {m: {i for i in IMPORTS[m] if room_of(i) == room} for m in MODULES if room_of(m) == room}
    plain = {m: found - {room} for m, found in within.items() if m != room}

    try:
        list(TopologicalSorter(plain).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")


def test_no_folder_holds_more_modules_than_one_can_look_over() -> None:
    folders = {path.parent for path in MODULES.values()}
    sizes = {folder.relative_to(ROOT).as_posix(): len(list(folder.glob("[!_]*.py"))) for folder in folders}

    assert {folder: size for folder, size in sizes.items() if size > MODULES_PER_FOLDER_MAX} == {}


def test_the_compiled_code_is_kept_by_all_sources_that_it_is_made_of() -> None:
    """Otherwise an old compilation would go on being used after a change."""
    kept = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in sources()}
    compiled = {m for m, found in IMPORTS.items() if "dispatch_audit.pipeline.replay.state.compiled" in found}
    rooms = ("dispatch_audit.pipeline.replay.", "dispatch_audit.pipeline.packing.")
    of_them = {i for m in compiled for i in IMPORTS[m] if i.startswith(rooms)}

    assert compiled | of_them <= kept, COMPILED_ROOMS


def test_the_replay_knows_no_engine() -> None:
    engines = ("pyspark", "dispatch_audit.pipeline.engine", "dispatch_audit.pipeline.plan")
    of_core = [path for name, path in MODULES.items() if ".pipeline.replay." in name]
    found = [path.name for path in of_core if any(f"from {engine}" in path.read_text("utf-8") for engine in engines)]

    assert of_core
    assert found == []
