"""Writes the shortest trace of a finding into a folder that `audit` accepts."""

import json
import shlex
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.explain.answer import StoryEvidence
from dispatch_audit.pipeline.explain.shortest_trace import REPLAYS_MAX, SameFinding, shortest_trace
from dispatch_audit.pipeline.explain.story import Story
from dispatch_audit.pipeline.explain.trace_rows import subscription_rows
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.settings import Settings, load_settings
from dispatch_audit.pipeline.trace import open_traces
from dispatch_audit.pipeline.trace.checks.setting_values import values_of
from dispatch_audit.pipeline.trace.manifest import FILE_NAME, TRACE_FORMAT

_LOG = "events.jsonl"
_SETTINGS = "audit.toml"


@dataclass(frozen=True)
class Export:
    """A written trace.

    Attributes:
        folder: where it is.
        rows: its number of rows.
        replays: how many traces were tried.
        finished: whether the search ended before its limit.
        command: audits it as the run was audited.
    """

    folder: Path
    rows: int
    replays: int
    finished: bool
    command: str

    @property
    def sentence(self) -> str:
        """What was written, and the next step."""
        early = "" if self.finished else f"; the search stopped at its limit of {self.replays:,} replays"
        return (
            f"wrote {count(self.rows, 'row')} that give the finding to {self.folder} after "
            f"{count(self.replays, 'replay')}{early}; audit them: {self.command}"
        )


def exported(
    evidence: StoryEvidence,
    story: Story,
    finding: Mapping[str, Any],
    folder: Path,
    replays_max: int = REPLAYS_MAX,
) -> Export:
    """Writes the shortest trace of a finding; its rows keep their seqs, times, names and keys.

    Args:
        evidence: of the story.
        story: of the finding.
        finding: the row of `violations`.
        folder: a new folder.
        replays_max: most traces to try.

    Raises:
        UsageError: the folder cannot be written.
        TraceError: the rows that are there now do not give the finding.
    """
    shortest = shortest_trace(evidence.rows, evidence.events, story.sticky_hash, finding, story.refused, replays_max)
    if shortest is None:
        raise TraceError(
            f"the rows of {evidence.trace.path} do not give finding {finding['finding_id']} any more", "audit it again"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE_NAME).write_text(json.dumps(_manifest(evidence, finding), indent=1) + "\n", encoding="utf-8")
        (folder / _LOG).write_text("".join(f"{line}\n" for line in _lines(shortest.rows)), encoding="utf-8")
        if evidence.run.settings != load_settings():
            (folder / _SETTINGS).write_text(_toml(evidence.run.settings), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}", "name another folder after --export") from None
    _check(folder, evidence, finding)
    command = _command(folder, evidence)
    return Export(folder, shortest.rows.num_rows, shortest.replays, shortest.finished, command)


def _manifest(evidence: StoryEvidence, finding: Mapping[str, Any]) -> dict[str, Any]:
    manifest = evidence.trace.manifest
    return {
        "trace_format": TRACE_FORMAT,
        "pulsar_version": manifest.pulsar_version,
        "settings": dict(manifest.settings),
        # JSON has no sets.
        "recorder": {**manifest.recorder.model_dump(), "events": sorted(manifest.recorder.events)},
        "complete_from_start": evidence.events.config.complete_from_start,
        "keys": manifest.keys,
        "note": f"The shortest trace that gives finding {finding['finding_id']} ({finding['rule']}).",
    }


def _lines(rows: pa.Table) -> Iterator[str]:
    for row in rows.to_pylist():
        written = {name: value for name, value in row.items() if value is not None}
        if "key" in written:
            written["key_b64"] = b64encode(written.pop("key")).decode()
        if "snapshot" in written:
            written["snapshot"] = json.loads(written["snapshot"])
        if "settings" in written:
            written["settings"] = values_of(dict(written["settings"]))
        if "sources" in written:
            written["sources"] = dict(written["sources"])
        yield json.dumps(written, ensure_ascii=True)


def _toml(settings: Settings) -> str:
    """Returns settings as TOML: sections of numbers and texts, which JSON writes the same way."""
    sections = settings.model_dump(mode="json")
    return "\n".join(
        "\n".join([f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items()), ""])
        for name, values in sections.items()
    )


def _check(folder: Path, evidence: StoryEvidence, finding: Mapping[str, Any]) -> None:
    """Reads the written rows back as an audit reads them, and makes sure that they give the finding."""
    (trace,) = open_traces([folder])
    rows = subscription_rows(trace, evidence.events.group)
    holds = SameFinding(rows, evidence.events.group, evidence.events.claimed, finding)
    assert holds(range(rows.num_rows)), "the written rows give the finding, as they did in memory"


def _command(folder: Path, evidence: StoryEvidence) -> str:
    manifest, profile = evidence.trace.manifest, evidence.run.profile
    words = ["dispatch-audit", "audit", str(folder), "--out", f"{folder}-tables"]
    if profile_for(manifest.pulsar_version, manifest.settings) != profile:
        words += ["--profile", profile.name]
    if (folder / _SETTINGS).exists():
        words += ["--config", str(folder / _SETTINGS)]
    return shlex.join(words)
