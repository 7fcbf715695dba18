"""Recognises the tables that an audit writes, so that none is read as a log: the name `consumers` fits both."""

from pathlib import Path
from typing import Final

# Every table of an audit is divided by this column (`dispatch_audit.pipeline.tables`), which no log has.
_PARTITIONED_BY: Final = ["run_key"]


def is_own_table(folder: Path) -> bool:
    """Whether a folder is a table that an audit wrote; not if it cannot be read as a table."""
    if not (folder / "_delta_log").is_dir():
        return False
    # Imported here, because few traces have a Delta table, and it takes a tenth of a second.
    from deltalake import DeltaTable  # noqa: PLC0415
    from deltalake.exceptions import DeltaError  # noqa: PLC0415

    try:
        return DeltaTable(folder).metadata().partition_columns == _PARTITIONED_BY
    except (DeltaError, OSError):
        return False
