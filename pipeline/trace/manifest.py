"""`trace.json`: which broker was recorded, under which settings, and from where on.

Source: TRACE_FORMAT, "A trace".
"""

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError

from pipeline.contract.profile import profile_named
from pipeline.errors import TraceError, UsageError
from pipeline.trace.entry_buckets import entry_buckets_refused, sets_entry_buckets

FILE_NAME = "trace.json"
TRACE_FORMAT = 1

# Strict, so that a setting stays what broker.conf said: 1 does not become true, nor "false" a truth.
SettingValue = StrictBool | StrictInt | StrictFloat | StrictStr | None


class Recorder(BaseModel):
    """What wrote the trace."""

    model_config = ConfigDict(frozen=True)

    name: str = ""
    version: str = ""


class Manifest(BaseModel):
    """A trace's own description of itself; fields it does not know are left alone.

    Attributes:
        pulsar_version: of the recorded broker, such as `4.0.8`.
        settings: names of broker.conf and their values; what is absent had that version's default.
        recorder: what wrote the trace.
        complete_from_start: the first consumer's join is in it. A trace that does not say is taken at its rows: those
            of consumers that never joined are refused.
        note: free text.
    """

    model_config = ConfigDict(frozen=True)

    pulsar_version: StrictStr
    settings: Mapping[str, SettingValue] = {}
    recorder: Recorder = Recorder()
    complete_from_start: StrictBool = True
    note: str = ""


def manifest_in(folder: Path, profile: str | None = None) -> Manifest:
    """The manifest of the trace in `folder`.

    Args:
        folder: where `trace.json` is looked for.
        profile: the profile that the user named, which stands in for a missing manifest.

    Raises:
        UsageError: there is no manifest, and no profile or an unknown one.
        TraceError: the manifest cannot be read, is of another format, or says that entries were dispatched by bucket.
    """
    path = folder / FILE_NAME
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return manifest_without_file(str(folder), profile)
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"cannot read {path}: {error}") from None
    return _parsed(path, text)


def manifest_without_file(source: str, profile: str | None) -> Manifest:
    """What is known of a trace without `trace.json`: the version line that the user named, and nothing else.

    Raises:
        UsageError: no profile was named, or an unknown one.
    """
    if profile is None:
        raise UsageError(f"{source}: there is no {FILE_NAME} beside the logs", "add one, or pass --profile")
    return Manifest(pulsar_version=profile_named(profile).from_version)


def _parsed(path: Path, text: str) -> Manifest:
    try:
        fields = json.loads(text)
    # A manifest nested thousands deep exhausts the parser's stack before it finds a fault, and a number of thousands of
    # digits is none that Python converts.
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path} is no JSON: {error}", "restore it from the recorder") from None
    if not isinstance(fields, dict):
        raise TraceError(f"{path} is not a JSON object", "TRACE_FORMAT shows one")
    found = fields.get("trace_format")
    # True equals 1 in Python, and is not a format.
    if isinstance(found, bool) or found != TRACE_FORMAT:
        wanted = f"this version reads format {TRACE_FORMAT}"
        raise TraceError(f"{path}: trace_format is {found!r}; {wanted}", "use the dispatch-audit that fits it")
    try:
        manifest = Manifest.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        # A union reports the name of the member that failed last; the setting's name comes before it.
        name = ".".join(str(part) for part in first["loc"][:2])
        raise TraceError(f"{path}: {name}: {first['msg']}", f"correct {FILE_NAME}") from None
    if sets_entry_buckets(manifest.settings):
        raise entry_buckets_refused(str(path))
    return manifest
