"""A bucket of an S3 server on this machine, and the options that reach it."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from dispatch_audit.pipeline.storage.options import for_delta_rs, options_given
from dispatch_audit.pipeline.storage.store_path import StorePath, store_path

SERVER = Path(__file__).with_name("s3_server.py")


@dataclass(frozen=True)
class Bucket:
    """A bucket.

    Attributes:
        options: that reach it.
        uri: of it.
    """

    options: dict[str, str]
    uri: str

    @property
    def arguments(self) -> list[str]:
        """The options as the command line takes them."""
        return [word for option in self.options.items() for word in ("--storage-option", "=".join(option))]

    def at(self, name: str) -> StorePath:
        """A path in it."""
        with options_given(self.options):
            path = store_path(f"{self.uri}/{name}")
        assert path is not None
        return path

    def upload(self, folder: Path, name: str) -> str:
        """Puts the files of a folder below a name; returns their URI."""
        for file in (file for file in folder.rglob("*") if file.is_file()):
            (self.at(name) / file.relative_to(folder).as_posix()).write_bytes(file.read_bytes())
        return f"{self.uri}/{name}"

    def rows(self, table: str, without: set[str]) -> Counter[str]:
        """The rows of a Delta table."""
        found = DeltaTable(f"{self.uri}/{table}", storage_options=for_delta_rs(tuple(self.options.items())))
        return rows_of(found, without)


def rows_of(table: DeltaTable, without: set[str]) -> Counter[str]:
    """The rows of a Delta table, without some columns."""
    rows: list[dict[str, Any]] = table.to_pyarrow_table().to_pylist()
    return Counter(repr({name: value for name, value in row.items() if name not in without}) for row in rows)


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, str]]:
    """The options of a running S3 server."""
    command = [sys.executable, str(SERVER)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())
        server.communicate(timeout=20)


@pytest.fixture
def bucket(s3_options: dict[str, str], request: pytest.FixtureRequest) -> Bucket:
    """A new bucket."""
    import boto3

    name = f"bucket-{abs(hash(request.node.nodeid)):x}"
    client = boto3.client(
        "s3",
        endpoint_url=s3_options["AWS_ENDPOINT_URL"],
        region_name=s3_options["AWS_REGION"],
        aws_access_key_id=s3_options["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=s3_options["AWS_SECRET_ACCESS_KEY"],
    )
    client.create_bucket(Bucket=name)
    return Bucket(s3_options, f"s3://{name}")
