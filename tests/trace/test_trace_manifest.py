"""trace.json: what is taken from it, and what ends a run."""

import json
from pathlib import Path

import pytest

from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.trace.manifest import manifest_in


def write(folder: Path, **changes: object) -> Path:
    fields = {"trace_format": 1, "pulsar_version": "4.0.8", "settings": {}, **changes}
    (folder / "trace.json").write_text(json.dumps(fields))
    return folder


def test_every_field_is_taken(tmp_path: Path) -> None:
    recorder = {"name": "lab", "version": "1"}
    write(
        tmp_path,
        settings={"numIOThreads": 4, "preciseDispatcherFlowControl": False},
        recorder=recorder,
        complete_from_start=True,
        note="n",
    )
    manifest = manifest_in(tmp_path)
    assert manifest.pulsar_version == "4.0.8"
    assert manifest.settings == {"numIOThreads": 4, "preciseDispatcherFlowControl": False}
    assert manifest.settings["preciseDispatcherFlowControl"] is False
    assert (manifest.recorder.name, manifest.recorder.version) == ("lab", "1")
    assert manifest.complete_from_start
    assert manifest.note == "n"


def test_a_trace_that_does_not_say_is_taken_as_complete(tmp_path: Path) -> None:
    assert manifest_in(write(tmp_path)).complete_from_start


def test_unknown_fields_are_no_error(tmp_path: Path) -> None:
    assert manifest_in(write(tmp_path, cluster="a")).pulsar_version == "4.0.8"


@pytest.mark.parametrize("number", [2, "1", True, None, 1.5, [1]])
def test_another_format_is_refused_with_its_number(tmp_path: Path, number: object) -> None:
    with pytest.raises(TraceError) as raised:
        manifest_in(write(tmp_path, trace_format=number))
    assert repr(number) in str(raised.value)
    assert str(tmp_path / "trace.json") in str(raised.value)
    assert raised.value.way_out


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pulsar_version", 4),
        ("settings", ["a"]),
        ("settings", {"maxUnackedMessagesPerConsumer": [1]}),
        ("complete_from_start", "yes"),
        ("recorder", "lab"),
    ],
)
def test_a_wrong_type_names_file_and_field(tmp_path: Path, field: str, value: object) -> None:
    with pytest.raises(TraceError) as raised:
        manifest_in(write(tmp_path, **{field: value}))
    assert f"{tmp_path / 'trace.json'}: {field}" in str(raised.value)


@pytest.mark.parametrize("text", ["", "{", "[1]", "\x00", "[" * 100_000])
def test_what_is_no_json_object_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "trace.json").write_text(text)
    with pytest.raises(TraceError, match=r"trace\.json"):
        manifest_in(tmp_path)


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_bytes(b'{"note":"\xff"}')
    with pytest.raises(TraceError, match="cannot read"):
        manifest_in(tmp_path)


@pytest.mark.parametrize("said", [False, None])
def test_a_trace_by_entry_buckets_is_refused(tmp_path: Path, said: bool | None) -> None:
    manifest_in(write(tmp_path, pulsar_version="5.0.1", settings={"entryBucketDispatch": said}))
    with pytest.raises(TraceError, match=r"trace\.json: entry-bucket dispatch") as raised:
        manifest_in(write(tmp_path, pulsar_version="5.0.1", settings={"entryBucketDispatch": True}))
    assert raised.value.way_out


def test_a_missing_manifest_needs_a_profile(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--profile"):
        manifest_in(tmp_path)
    assert manifest_in(tmp_path, "pulsar-4.0.7").pulsar_version == "4.0.7"
    with pytest.raises(UsageError, match="no profile 'pulsar-9'"):
        manifest_in(tmp_path, "pulsar-9")


def test_a_profile_does_not_replace_a_manifest(tmp_path: Path) -> None:
    assert manifest_in(write(tmp_path), "pulsar-4.2.4").pulsar_version == "4.0.8"
