"""The target of an audit: its tables stand below a path, or in a schema of a catalog.

`name.name` (letters, digits, underscores; no slash) that is not a folder here is `catalog.schema`; everything else is a
path, local or a URI. Write `./name.name` for a new folder of such a name.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.storage.store_path import AnyPath, StorePath, store_path

_CATALOG_SCHEMA = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*", re.ASCII)
# delta-rs takes the path of a table for a URL, and does not open all that it encodes.
_NOT_OPENED = re.compile(r"[\[\]\\^|]|%[0-9A-Fa-f]{2}")
_ON_DATABRICKS = "DATABRICKS_RUNTIME_VERSION"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


@dataclass(frozen=True)
class Target:
    """Where tables are written; `parse_target` makes one.

    Attributes:
        location: an absolute path, a URI without a trailing slash, or `catalog.schema`.
        named: whether it is `catalog.schema`.
        local: whether it is a path in the file system of this machine.
        store: the path, if it is in an object store that this process reaches.
    """

    location: str
    named: bool
    local: bool = False
    store: StorePath | None = None

    def __str__(self) -> str:
        return self.location

    def identifier(self, table_name: str) -> str:
        """The table as SQL names it, quoted."""
        if self.named:
            return f"{self.quoted}.`{table_name}`"
        escaped = f"{self.location}/{table_name}".replace("`", "``")
        return f"delta.`{escaped}`"

    @property
    def place(self) -> AnyPath | None:
        """Where delta-rs finds the tables; None: only Spark finds them."""
        return Path(self.location) if self.local else self.store

    @property
    def quoted(self) -> str:
        """The schema as SQL names it; of a named target only."""
        return ".".join(f"`{part}`" for part in self.location.split("."))

    def read(self, spark: SparkSession, table_name: str) -> DataFrame:
        """The current rows of the table, read through Spark."""
        return spark.table(self.identifier(table_name))


def parse_target(text: str, option: str = "--out") -> Target:
    """Returns the target that `text` names.

    Args:
        text: as above.
        option: of the command line that has it, for messages.

    Raises:
        UsageError: `text` is empty, names a file, or is a path that tables cannot be below.
    """
    if not text.strip():
        raise UsageError(f"{option} is empty", "pass a folder, a URI or a name in a catalog")
    path = Path(text)
    if _CATALOG_SCHEMA.fullmatch(text) and not path.is_dir():
        return Target(text, named=True)
    if _URI.match(text):
        return Target(text.rstrip("/"), named=False, store=store_path(text))
    for ancestor in (path, *path.parents):
        if ancestor.exists() and not ancestor.is_dir():
            raise UsageError(f"{ancestor} is a file, but the tables need a folder", f"choose another {option}")
    if _ON_DATABRICKS in os.environ:
        # A path belongs to the file system of Databricks there, and not to this machine.
        return Target(str(path.absolute()), named=False)
    # Spark would resolve a relative path against the working directory of its JVM.
    location = str(path.absolute())
    if found := _NOT_OPENED.search(location):
        raise UsageError(f"tables cannot be below {location}, because of {found[0]} in it", f"choose another {option}")
    return Target(location, named=False, local=True)
