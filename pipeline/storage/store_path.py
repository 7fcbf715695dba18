"""Paths in object stores, with the part of `pathlib.Path` that reading a trace needs.

So one code reads folders of this machine and of stores. A folder of a store is all names that begin with it; a listing
has the kinds and sizes of what it found, so that nothing is asked again.

delta-rs opens the files, as it does those of tables: one set of options serves both, and credentials are looked for in
the same places.
"""

import errno
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, NamedTuple, TypeVar, cast

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.storage.options import Options, for_delta_rs, given_options
from dispatch_audit.pipeline.storage.reasons import unreachable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs

_URI: Final = re.compile(r"(?P<root>(?:s3a?|gs|az|abfss?)://[^/]+)(?P<key>/.*)?", re.DOTALL)
# On its clusters Spark has the rights to stores, by way of Unity Catalog, and Python has none.
_ON_DATABRICKS: Final = "DATABRICKS_RUNTIME_VERSION"
# What is read at a time where a reader asks for less, such as one that unpacks: each time is a request.
_READ_BYTES: Final = 1 << 20
_FOLDER_OF_HADOOP: Final = "_$folder$"

_Kind = Literal["file", "folder", "absent"]
_Result = TypeVar("_Result")


class StoreStat(NamedTuple):
    """What a store says of a file: its bytes, and when it was written, seconds since 1970 UTC."""

    st_size: int
    st_mtime: float


@dataclass(frozen=True)
class StorePath:
    """A path in a store; `store_path` makes one.

    Every method that asks the store raises a UsageError if it does not answer or refuses.

    Attributes:
        root: scheme and bucket (`s3://bucket`), or the container of Azure.
        key: the rest, without slashes at its ends; empty: the bucket.
        options: credentials and the like.
    """

    root: str
    key: str
    options: Options = field(repr=False, compare=False)
    _known: tuple[_Kind, StoreStat] | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.root}/{self.key}".rstrip("/")

    def __lt__(self, other: "StorePath") -> bool:
        # As paths of this machine: by the names of their parts.
        return (self.root, self.key.split("/")) < (other.root, other.key.split("/"))

    def __truediv__(self, name: str) -> "StorePath":
        return replace(self, key=f"{self.key}/{name}".strip("/"), _known=None)

    @property
    def name(self) -> str:
        """The last part."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The ending of the last part."""
        return PurePosixPath(self.key).suffix

    @property
    def parent(self) -> "StorePath":
        """The folder."""
        return replace(self, key=self.key.rpartition("/")[0], _known=None)

    def relative_to(self, folder: "StorePath") -> PurePosixPath:
        """The path below a folder."""
        return PurePosixPath(self.key).relative_to(folder.key)

    def is_relative_to(self, folder: "StorePath") -> bool:
        """Whether it is a folder, or below it."""
        return self.root == folder.root and f"{self.key}/".startswith(f"{folder.key}/".lstrip("/"))

    def is_file(self) -> bool:
        """Whether it is a file."""
        return self._looked_up()[0] == "file"

    def is_dir(self) -> bool:
        """Whether anything is below it."""
        return not self.key or self._looked_up()[0] == "folder"

    def exists(self) -> bool:
        """Whether there is a file, or anything below it."""
        return self.is_dir() or self.is_file()

    def stat(self) -> StoreStat:
        """The size and time of a file."""
        return self._looked_up()[1]

    def iterdir(self) -> Iterator["StorePath"]:
        """Yields the files and folders in it."""
        yield from self._listed(recursive=False)

    def rglob(self, pattern: Literal["*"] = "*") -> Iterator["StorePath"]:
        """Yields all files and folders below it."""
        yield from self._listed(recursive=True)

    @property
    def is_glob(self) -> bool:
        """Whether the last part stands for several names; an object of such a name is not found."""
        return not {"*", "?"}.isdisjoint(self.name)

    def matching(self) -> list["StorePath"]:
        """Returns what is in the folder under a name that the last part, a glob, stands for."""
        return sorted(path for path in self.parent.iterdir() if fnmatchcase(path.name, self.name))

    def of_size(self, size: int) -> "StorePath":
        """The path as a file that is known to be there, so that the store is not asked."""
        return replace(self, _known=("file", StoreStat(size, 0.0)))

    def open(self, mode: Literal["rb"] = "rb") -> BinaryIO:
        """Returns the content of a file; each read of much is one request."""
        return cast("BinaryIO", io.BufferedReader(self.random_access(), _READ_BYTES))

    def random_access(self) -> "pa.NativeFile":
        """Returns the content of a file, as Arrow's readers take it."""
        return self._asked(lambda files: files.open_input_file(self.key))

    def read_bytes(self) -> bytes:
        """Returns the content of a file."""
        with self.open() as stream:
            return self._asked(lambda _: stream.read())

    def read_text(self, encoding: str = "utf-8") -> str:
        """Returns the content of a file as text."""
        return self.read_bytes().decode(encoding)

    def write_bytes(self, content: bytes) -> None:
        """Writes a file, or another content into it."""

        def write(files: "pafs.FileSystem") -> None:
            with files.open_output_stream(self.key, compression=None) as stream:  # else by the name
                stream.write(content)

        self._asked(write)

    def remove_all(self) -> None:
        """Removes the file, or all files below it."""
        for path in [self] if self.is_file() else [path for path in self.rglob() if path.is_file()]:
            path._asked(path._remove)

    def _remove(self, files: "pafs.FileSystem") -> None:
        files.delete_file(self.key)

    def _looked_up(self) -> tuple[_Kind, StoreStat]:
        return self._known or self._asked(lambda files: _described(files.get_file_info(self.key)))

    def _listed(self, *, recursive: bool) -> list["StorePath"]:
        import pyarrow.fs as pafs  # noqa: PLC0415 - it takes a moment, and few paths are in stores

        chosen = pafs.FileSelector(self.key, recursive=recursive, allow_not_found=True)
        found = self._asked(lambda files: files.get_file_info(chosen))
        paths = [replace(self, key=info.path.strip("/"), _known=_described(info)) for info in found]
        # Consoles and Hadoop make empty objects that stand for folders.
        folders = {self.key, *(path.key for path in paths if path.is_dir())}
        return [
            path
            for path in paths
            if path.is_dir() or (path.key not in folders and not path.name.endswith(_FOLDER_OF_HADOOP))
        ]

    def _asked(self, ask: Callable[["pafs.FileSystem"], _Result]) -> _Result:
        with self._errors():
            return ask(_file_system(self.root, self.options))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self)) from None
        except Exception as error:
            # Without its cause, which has what was sent to the store.
            raise unreachable(self, error) from None


AnyPath = Path | StorePath
"""A path of this machine, or in a store."""


def store_path(text: str) -> StorePath | None:
    """Returns the path in a store that a URI names, with the options that hold now.

    None: it is no such URI, or this is a cluster of Databricks, where Spark reaches stores.

    Raises:
        UsageError: it has credentials, which would be stored with the tables.
    """
    found = None if _ON_DATABRICKS in os.environ else _URI.fullmatch(text)
    if found and "@" in found["root"] and not found["root"].startswith("abfs"):
        raise UsageError("a URI of a store has a secret before its @", "pass it with --storage-option")
    return found and StorePath(found["root"], (found["key"] or "").strip("/"), given_options())


def any_path(text: str) -> AnyPath:
    """Returns the path that a text names."""
    return store_path(text) or Path(text)


def _described(info: "pafs.FileInfo") -> tuple[_Kind, StoreStat]:
    kinds: dict[int, _Kind] = {2: "file", 3: "folder"}
    written = 0.0 if info.mtime_ns is None else info.mtime_ns / 1e9
    return kinds.get(int(info.type), "absent"), StoreStat(info.size or 0, written)


@lru_cache(maxsize=32)
def _file_system(root: str, options: Options) -> "pafs.FileSystem":
    # Imported here, because they take a tenth of a second, and few paths are in stores.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.fs as pafs  # noqa: PLC0415
    from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415

    class Handler(DeltaStorageHandler):
        def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> pa.NativeFile:
            return pa.PythonFile(_Writer(self._handler.open_output_stream(path, metadata)), "w")

    return pafs.PyFileSystem(Handler(f"{root}/", for_delta_rs(options)))


class _Writer:
    """Hands bytes to delta-rs, which refuses the buffers of Arrow."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.closed = stream, False

    def write(self, content: Any) -> int:
        return int(self._stream.write(bytes(content)))

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self.closed = True
        self._stream.close()
