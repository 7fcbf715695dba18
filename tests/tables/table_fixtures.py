"""What tests of tables share: one run with a row in every table, written once in each way."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ways import Way

# Returns the folder of a run that was written in a way.
WrittenBy = Callable[["Way"], Path]


@pytest.fixture(scope="session")
def written_by(tmp_path_factory: pytest.TempPathFactory) -> WrittenBy:
    """For tests that only read: to write all tables takes ten seconds through Spark."""
    folders: dict[str, Path] = {}

    def written(way: "Way") -> Path:
        # The writer of Delta takes time to import, which most tests do not need.
        from ways import WITHOUT_RUNS

        name = "Spark" if way.spark else "delta-rs"
        if name not in folders:
            folder = tmp_path_factory.mktemp(f"it's a `target` {{of}} {name}")
            way.write_run(folder, "aaaa", WITHOUT_RUNS)
            folders[name] = folder
        return folders[name]

    return written
