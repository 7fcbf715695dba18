"""Delta tables of this machine and of object stores, as delta-rs opens them."""

from pathlib import Path

from deltalake import DeltaTable

from dispatch_audit.pipeline.storage.options import for_delta_rs
from dispatch_audit.pipeline.storage.store_path import AnyPath, StorePath


def opened_table(folder: AnyPath) -> DeltaTable:
    """Returns the newest version of a table.

    Raises:
        DeltaError: there is none, or its log is damaged.
        OSError: it cannot be read.
    """
    return DeltaTable(path_of(folder), storage_options=options_of(folder))


def path_of(folder: AnyPath) -> Path | str:
    """Returns a path as delta-rs takes it."""
    return str(folder) if isinstance(folder, StorePath) else folder


def options_of(folder: AnyPath) -> dict[str, str] | None:
    """Returns the options of a path as delta-rs takes them."""
    return for_delta_rs(folder.options) if isinstance(folder, StorePath) else None
