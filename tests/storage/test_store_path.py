"""Paths in an object store behave as paths of this machine, and what the store refuses is one sentence."""

import gzip
import pickle
import time
from pathlib import Path
from typing import Any

import pytest
from store_fixtures import Bucket

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.storage.options import options_given
from dispatch_audit.pipeline.storage.store_path import AnyPath, StorePath, store_path
from dispatch_audit.pipeline.trace.lines.blocks import blocks_of

NAMES = ["a-b/events.jsonl", "a/c/d.jsonl", "a/z.jsonl", "topic=x%2Fy/part 1.parquet", "b.txt"]


def below(folder: AnyPath, *, recursive: bool) -> list[tuple[str, bool, int]]:
    found: list[Any] = sorted(folder.rglob("*") if recursive else folder.iterdir())
    return [
        (path.relative_to(folder).as_posix(), path.is_dir(), path.stat().st_size if path.is_file() else 0)
        for path in found
    ]


def test_a_folder_of_a_store_lists_as_one_of_this_machine(bucket: Bucket, tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / "folder" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "folder" / name).write_text(name)
    bucket.upload(tmp_path / "folder", "folder")
    stored = bucket.at("folder")
    for recursive in (False, True):
        assert below(stored, recursive=recursive) == below(tmp_path / "folder", recursive=recursive)
    assert [(stored / name).read_text() for name in NAMES] == NAMES
    assert [path.name for path in (stored / "a" / "z*.jsonl").matching()] == ["z.jsonl"]
    assert (stored.exists(), stored.is_file(), (stored / "none").exists()) == (True, False, False)
    (stored / "a").remove_all()
    assert [path.name for path in sorted(stored.iterdir())] == ["a-b", "b.txt", "topic=x%2Fy"]


def test_objects_that_stand_for_folders_are_no_files(bucket: Bucket) -> None:
    import boto3

    options = bucket.options
    client = boto3.client(
        "s3",
        endpoint_url=options["AWS_ENDPOINT_URL"],
        aws_access_key_id=options["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=options["AWS_SECRET_ACCESS_KEY"],
        region_name="us-east-1",
    )
    for key in ("night/", "night/part/", "night/part_$folder$", "night/part/events.jsonl"):
        client.put_object(Bucket=bucket.uri.removeprefix("s3://"), Key=key, Body=b"x" * key.endswith("jsonl"))
    found = sorted(bucket.at("night").rglob())
    assert [(path.key, path.is_dir()) for path in found] == [("night/part", True), ("night/part/events.jsonl", False)]


def test_a_worker_reads_with_the_options_of_the_call_and_no_text_shows_them(bucket: Bucket) -> None:
    (bucket.at("log.jsonl.gz")).write_bytes(gzip.compress(b"one\ntwo\n"))
    path: StorePath = pickle.loads(pickle.dumps(bucket.at("log.jsonl.gz")))
    assert [block.text for block in blocks_of(path, 0, None)] == [b"one\ntwo\n"]
    (bucket.at("log.jsonl")).write_bytes(b"one\ntwo\nthree\n")
    assert [block.text for block in blocks_of(bucket.at("log.jsonl"), 1, 9)] == [b"two\nthree\n"]
    assert bucket.options["AWS_SECRET_ACCESS_KEY"] not in repr(path) + str(path)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "not-the-secret"}, "SignatureDoesNotMatch"),
        ({"AWS_ACCESS_KEY_ID": "AKIANOBODY"}, "InvalidAccessKeyId"),
        # Port 9 discards, and nothing listens there.
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "Connection refused"),
    ],
)
def test_what_a_store_refuses_is_one_sentence_after_seconds(bucket: Bucket, changed: dict[str, str], said: str) -> None:
    begun = time.monotonic()
    with options_given({**bucket.options, **changed}):
        path = store_path(f"{bucket.uri}/night")
    with pytest.raises(UsageError, match=said) as raised:
        list(path.iterdir() if path else ())
    assert time.monotonic() - begun < 20
    assert str(raised.value).startswith(f"cannot reach {bucket.uri}/night: ")
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)
    assert not any(value in str(raised.value) for value in changed.values())


def test_a_bucket_that_is_not_there_is_named(bucket: Bucket) -> None:
    with options_given(bucket.options):
        path = store_path("s3://nowhere-at-all/night")
    with pytest.raises(UsageError, match="cannot reach s3://nowhere-at-all/night: NoSuchBucket"):
        list(path.iterdir() if path else ())
