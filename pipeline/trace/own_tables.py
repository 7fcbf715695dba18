"""Recognises the tables that an audit writes, so that none is read as a log: the name `consumers` fits both."""

from typing import Final

from dispatch_audit.pipeline.storage.store_path import AnyPath

# Every table of an audit is divided by this column (`dispatch_audit.pipeline.tables`), which no log has.
_PARTITIONED_BY: Final = ["run_key"]


def is_own_table(folder: AnyPath) -> bool:
    """Whether a folder is a table that an audit wrote; not if it cannot be read as a table."""
    if not folder.is_dir() or not (folder / "_delta_log").is_dir():
        return False
    # Imported here, because few traces have a Delta table, and it takes a tenth of a second.
    from deltalake.exceptions import DeltaError  # noqa: PLC0415

    from dispatch_audit.pipeline.storage.delta import opened_table  # noqa: PLC0415

    try:
        return opened_table(folder).metadata().partition_columns == _PARTITIONED_BY
    except (DeltaError, OSError):
        return False
