"""Reads `trace.json`: the recorded broker, its settings, and whether the trace is complete from the start.

Source: TRACE_FORMAT, "A trace".
"""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError

from dispatch_audit.pipeline.contract.profile import profile_named
from dispatch_audit.pipeline.contract.recorded_by import BROKER, RecordedBy
from dispatch_audit.pipeline.contract.setting_kinds import is_of_kind, setting_kinds
from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.messages.model_errors import in_words, shown
from dispatch_audit.pipeline.messages.nearest import did_you_mean, misspelt
from dispatch_audit.pipeline.storage.store_path import AnyPath
from dispatch_audit.pipeline.trace.entry_buckets import entry_buckets_refused, sets_entry_buckets
from dispatch_audit.udfs.hash_sample import EVERY_HASH, HashSample

FILE_NAME = "trace.json"
TRACE_FORMAT = 1
_BYTES_MAX = 16 << 20

# Strict types keep a setting as it is in broker.conf: 1 does not become true, nor "false" a true value.
SettingValue = StrictBool | StrictInt | StrictFloat | StrictStr | None


class Recorder(BaseModel):
    """The recorder that wrote the trace.

    Attributes:
        events: the kinds of rows that it writes, so that a trace without one of them shows that nothing of that kind
            happened; a kind that neither this nor any row names may not have been recorded.
    """

    model_config = ConfigDict(frozen=True)

    name: str = ""
    version: str = ""
    events: frozenset[StrictStr] = frozenset()


class Sample(BaseModel):
    """The share of the hashes whose rows a trace has.

    Attributes:
        share: `1/n`.
        salt: chooses which hashes belong to it.
    """

    model_config = ConfigDict(frozen=True)

    share: Annotated[StrictStr, Field(pattern=r"^1/[1-9][0-9]{0,6}$")]
    salt: StrictStr


class Manifest(BaseModel):
    """The description of a trace in its `trace.json`; unknown fields are kept but not used.

    Attributes:
        pulsar_version: of the recorded broker, such as `4.0.8`.
        settings: names of broker.conf and their values; an absent one had the default of that version.
        recorder: the recorder that wrote the trace.
        complete_from_start: whether the trace has the join of the first consumer. True by default: rows of consumers
            that never joined are then refused.
        recorded_by: where the recorder was.
        keys: whether the rows have the keys as they are, or digests of them.
        key_digest_hours: how long a key keeps its digest, by the times at which its messages were published; 0: always.
        sample: the share of the hashes whose rows the trace has; None: all.
        note: free text.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    pulsar_version: StrictStr
    settings: Mapping[str, SettingValue] = {}
    recorder: Recorder = Recorder()
    complete_from_start: StrictBool = True
    recorded_by: RecordedBy = BROKER
    keys: Literal["plain", "digest"] = "plain"
    key_digest_hours: Annotated[StrictInt, Field(ge=0)] = 0
    sample: Sample | None = None
    note: str = ""

    @property
    def hashes(self) -> HashSample:
        """The hashes whose rows the trace has."""
        sample = self.sample
        return EVERY_HASH if sample is None else HashSample(int(sample.share.removeprefix("1/")), sample.salt)

    @property
    def keys_digested(self) -> bool:
        """Whether the rows have digests in the place of keys, and the hashes of the keys beside them."""
        return self.keys == "digest"

    @property
    def digests_change(self) -> bool:
        """Whether two digests may be of one key, because its messages were published in two periods."""
        return self.keys_digested and self.key_digest_hours > 0

    @property
    def unknown_names(self) -> Iterator[str]:
        """Yields a sentence for each field that is unknown, and for each setting that is surely misspelt."""
        for name in self.model_extra or {}:
            if name not in ("trace_format", "$schema"):
                meant = did_you_mean(name, type(self).model_fields)
                yield f"field {name} is unknown and was not used{f'; {meant}' if meant else ''}"
        for name in self.settings:
            meant_setting = misspelt(name, setting_kinds())
            if meant_setting:
                yield f"setting {name} is unknown and was not used; did you mean {meant_setting}?"


class NoManifestError(UsageError):
    """Raised where a trace has no manifest and no profile replaces it: one of several traces is left out then."""


def manifest_in(folder: AnyPath, profile: str | None = None) -> Manifest:
    """Returns the manifest of the trace in `folder`.

    Args:
        folder: the folder of `trace.json`.
        profile: the profile that the user named, which replaces a missing manifest.

    Raises:
        UsageError: there is no manifest, and no profile or an unknown one.
        TraceError: the manifest cannot be read, is of another format, or declares entry-bucket dispatch.
    """
    path = folder / FILE_NAME
    try:
        # Reading a pipe waits for its writer, and a device may have no end.
        if path.exists() and not path.is_file():
            raise TraceError(f"{path} is not a regular file, but a pipe, a device or a folder", "write it to a file")
        if path.stat().st_size > _BYTES_MAX:
            raise TraceError(f"{path} has more than {_BYTES_MAX >> 20} MB", "restore it from the recorder")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return manifest_without_file(str(folder), profile)
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"cannot read {path}: {error}", "restore it from the recorder") from None
    return _parsed(path, text)


def manifest_without_file(source: str, profile: str | None) -> Manifest:
    """Returns the manifest of a trace without `trace.json`: the first version of the named profile, and nothing else.

    Raises:
        UsageError: no profile was named, or an unknown one.
    """
    if profile is None:
        raise NoManifestError(f"{source} has no {FILE_NAME} beside its logs", "add one, or pass --profile")
    return Manifest(pulsar_version=profile_named(profile).from_version)


def _parsed(path: AnyPath, text: str) -> Manifest:
    try:
        fields = json.loads(text)
    # RecursionError: thousands of nested brackets exhaust the parser's stack. ValueError also covers numbers of
    # thousands of digits, which Python does not convert.
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path} is not JSON: {error}", "restore it from the recorder") from None
    if not isinstance(fields, dict):
        raise TraceError(f"{path} is not a JSON object", "docs/TRACE_FORMAT.md describes its fields")
    found = fields.get("trace_format")
    # True equals 1 in Python, but is not a format.
    if isinstance(found, bool) or found != TRACE_FORMAT:
        raise TraceError(
            f"{path}: trace_format is {found!r}, but this version of dispatch-audit reads format {TRACE_FORMAT}",
            "use a version that reads this format",
        )
    try:
        manifest = Manifest.model_validate(fields)
    except ValidationError as error:
        raise _incorrect(path, in_words(error, fields, Manifest)) from None
    for name, value in manifest.settings.items():
        if not is_of_kind(name, value):
            kind = "true or false" if setting_kinds()[name] == "switch" else "a number"
            raise _incorrect(path, f"settings.{name} is {shown(value)}, not {kind}")
    if sets_entry_buckets(manifest.settings):
        raise entry_buckets_refused(str(path))
    return manifest


def _incorrect(path: AnyPath, fault: str) -> TraceError:
    return TraceError(f"{path}: {fault}", f"correct {FILE_NAME}; docs/TRACE_FORMAT.md describes its fields")
