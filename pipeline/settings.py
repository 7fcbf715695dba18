"""The settings of an audit: the defaults of `conf/audit.toml`, overlaid by the user's file."""

import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.messages.model_errors import in_words

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def _limit(value: object) -> object:
    """Returns 0, which means no limit, for "all"; any other value as it is."""
    return 0 if value == "all" else value


class _Section(BaseModel):
    # Strict: true is no 1, and "1" is none.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TraceSettings(_Section):
    """How a trace is read; `conf/audit.toml` explains each setting."""

    quarantine_ratio_max: float = Field(ge=0, le=1)
    truncated_log: Literal["refuse", "quarantine"]
    recorder_skew_ms: int = Field(ge=0)
    line_mb_max: int = Field(default=16, ge=1)

    @property
    def recorder_skew_us(self) -> int:
        """The recorder skew in the unit of `ts_us`."""
        return self.recorder_skew_ms * 1000


class SparkSettings(_Section):
    """How the work is cut for Spark."""

    chunk_rows: int = Field(ge=1)
    replay_tasks: int | Literal["auto"]


class LimitSettings(_Section):
    """How many entries may be open at one time."""

    open_entries_max: int = Field(ge=1)


class OrderSettings(_Section):
    """How far the search for the order of overlapping joins and leaves goes."""

    assignments_max: int = Field(ge=1)
    rows_max: int = Field(ge=0)


class BlockingSettings(_Section):
    """From when on waiting is reported, and how much of it is kept."""

    report_min_ms: int = Field(ge=1)
    stall_threshold_ms: int = Field(ge=1)
    intervals_max: int = Field(ge=1)
    recently_joined: Literal["read_position", "last_sent_position"]


class CapacitySettings(_Section):
    """How often the limits are sampled."""

    sample_interval_s: int = Field(ge=1)


class ReportSettings(_Section):
    """How much of the evidence is kept."""

    findings_per_rule_max: Annotated[int, BeforeValidator(_limit), Field(ge=0)]
    hot_keys_max: int = Field(ge=1)


class ChoiceSettings(_Section):
    """Which rows of a trace are audited."""

    topics: list[str] = []
    subscriptions: list[str] = []
    sample: Annotated[str, Field(pattern=r"^1/[1-9][0-9]{0,6}$")] = "1/1"
    sample_salt: str = ""

    @property
    def one_in(self) -> int:
        """How many hashes there are for each that is audited."""
        return int(self.sample.removeprefix("1/"))


class Settings(_Section):
    """All settings of an audit. Equal settings give equal results; they are part of the `run_key`.

    Those with a default are newer than runs that are on disk without them.
    """

    trace: TraceSettings
    spark: SparkSettings
    limits: LimitSettings
    orders: OrderSettings
    blocking: BlockingSettings
    capacity: CapacitySettings
    report: ReportSettings
    choice: ChoiceSettings = ChoiceSettings()


def load_settings(path: Path | None = None, chosen: Mapping[str, object] = MappingProxyType({})) -> Settings:
    """Returns the defaults of `conf/audit.toml`, overlaid by the file at `path`, and that by options.

    Args:
        path: a file of the user; None: there is none.
        chosen: settings of section `choice` that options give.

    Raises:
        UsageError: the file is missing, is not TOML, or has an unknown or impossible setting.
    """
    merged = tomllib.loads(files("dispatch_audit").joinpath("conf/audit.toml").read_text(encoding="utf-8"))
    if path is not None:
        for section, values in _read(path).items():
            if not isinstance(values, dict):
                raise UsageError(f"{path}: {section} is not in a section", "see conf/audit.toml")
            merged[section] = {**merged.get(section, {}), **values}
    merged["choice"] = {**merged.get("choice", {}), **chosen}
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        fault = in_words(error, merged, Settings)
        raise UsageError(f"{path or 'settings'}: {fault}", "conf/audit.toml lists every setting") from None


def _read(path: Path) -> dict[str, object]:
    try:
        read: dict[str, object] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the configuration {path}: {error.strerror}", "check --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}", "correct it; conf/audit.toml is an example") from None
    return read
