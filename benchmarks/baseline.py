"""Compares the ratios of a run with stored ones.

Ratios and not seconds, because machines differ and a run is compared with plans of the same run. They still depend on
the trace: the fixed cost of an audit weighs more in a small one. So a baseline is only compared with runs under equal
conditions.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dispatch_audit.pipeline.errors import UsageError

STORED = Path(__file__).with_name("baseline.json")
_TOLERANCE = 0.25


class Expected(BaseModel):
    """A stored ratio.

    Attributes:
        ratio: as measured.
        tolerance: share of the ratio by which a run may be higher.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    ratio: float = Field(gt=0)
    tolerance: float = Field(ge=0)


class Baseline(BaseModel):
    """Ratios by name, and under which conditions they were measured (options by name)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    conditions: Mapping[str, int | str]
    ratios: Mapping[str, Expected]

    def regressions(self, measured: Mapping[str, float]) -> list[str]:
        """One line for each ratio that is higher than it may be, or was not measured.

        Args:
            measured: ratios of a run by name; others than those of the baseline are not looked at.
        """
        lines = []
        for name, expected in self.ratios.items():
            highest = expected.ratio * (1 + expected.tolerance)
            if name not in measured:
                lines.append(f"{name}: not measured, was {expected.ratio:.2f}")
            elif measured[name] > highest:
                lines.append(f"{name}: {measured[name]:.2f}, was {expected.ratio:.2f} and may be {highest:.2f}")
        return lines


def load_baseline(path: Path, conditions: Mapping[str, int | str]) -> Baseline:
    """The stored baseline.

    Args:
        path: of the file.
        conditions: of the run that is to be compared.

    Raises:
        UsageError: there is none, it cannot be read, or it was measured under other conditions.
    """
    try:
        baseline = Baseline.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read the baseline {path}: {error.strerror}", "--save-baseline writes one") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path} is not a baseline: {where}: {first['msg']}", "--save-baseline writes one") from None
    others = [f"--{name} {value}" for name, value in baseline.conditions.items() if conditions.get(name) != value]
    if others:
        raise UsageError(f"{path} was measured under other conditions", f"run with {' '.join(others)}")
    return baseline


def save_baseline(path: Path, conditions: Mapping[str, int | str], measured: Mapping[str, float]) -> None:
    """Stores the ratios of a run with the usual tolerance; edit the file where a ratio needs another."""
    ratios = {name: Expected(ratio=round(ratio, 3), tolerance=_TOLERANCE) for name, ratio in measured.items()}
    baseline = Baseline(conditions=conditions, ratios=ratios)
    path.write_text(json.dumps(baseline.model_dump(), indent=1) + "\n")
