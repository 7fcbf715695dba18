"""The baseline: findings that people have accepted, in a file beside the code. They do not fail an audit.

A finding is recognised by what stays the same when the audit, its wording or the numbers of a recorder change: its
trace, rule, topic, subscription, hash, entry and consumers, by name where they have one. Of findings that are equal in
all of these, as many are accepted as the file counts. A finding worse than the accepted severity is not accepted.
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dispatch_audit.pipeline.contract.severity import NEED_A_LOOK, SEVERITIES, Severity
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.messages.model_errors import in_words
from dispatch_audit.pipeline.trace.sources import SEPARATOR, places_in

FORMAT: Final = 1
IDENTIFYING: Final = (
    "finding_id",
    "rule",
    "severity",
    "topic",
    "subscription",
    "sticky_hash",
    "ledger_id",
    "entry_id",
    "consumer",
    "consumer_name",
    "other_consumer",
    "other_consumer_name",
    "seq",
)
"""The columns of `violations` by which findings are recognised and put in order."""


class AcceptedFinding(BaseModel):
    """A line of the file.

    Attributes:
        trace: its path from the folder of the file; a URI or a table as it is named.
        entry: as ledger:entry.
        consumer: its name; of one without a name its number in the trace.
        severity: the worst that is accepted.
        count: how many findings that are equal in all else.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    trace: str
    rule: str
    topic: str
    subscription: str
    sticky_hash: int | None = None
    entry: str | None = None
    consumer: str | int | None = None
    other_consumer: str | int | None = None
    severity: Severity
    count: int = Field(default=1, ge=1)

    @property
    def identity(self) -> "AcceptedFinding":
        """The same without what may differ from audit to audit."""
        return self.model_copy(update={"severity": "info", "count": 1})

    def __str__(self) -> str:
        """What a message says of it."""
        about = [
            self.trace,
            f"{self.topic}, {self.subscription}",
            f"entry {self.entry}" if self.entry else "" if self.sticky_hash is None else f"hash {self.sticky_hash}",
            "" if self.consumer is None else f"to {self.consumer}",
        ]
        times = f" ({self.count:,} times)" if self.count > 1 else ""
        return f"{self.rule} in {', '.join(filter(None, about))}{times}"


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    baseline_format: Literal[1]
    findings: list[AcceptedFinding]


class Matched(NamedTuple):
    """What a baseline says of the findings of one run.

    Attributes:
        ids: the `finding_id` of those that it accepts.
        stale: what it accepts and the run does not have, or has in smaller numbers.
    """

    ids: frozenset[str]
    stale: tuple[AcceptedFinding, ...]


@dataclass(frozen=True)
class Baseline:
    """A file of accepted findings.

    Attributes:
        path: of the file.
        findings: its lines.
    """

    path: Path
    findings: tuple[AcceptedFinding, ...] = ()

    def matched(self, trace: str, rows: Sequence[Mapping[str, Any]]) -> Matched:
        """Returns which findings of a run are accepted, and what is accepted and not there.

        Args:
            trace: as in `runs.inputs`.
            rows: all of the run, with the columns `IDENTIFYING`, in any order.
        """
        left: defaultdict[AcceptedFinding, Counter[Severity]] = defaultdict(Counter)
        name = self.name_of(trace)
        for accepted in self.findings:
            if accepted.trace == name:
                left[accepted.identity][accepted.severity] += accepted.count
        ids = set()
        need_a_look = [row for row in rows if row["severity"] in NEED_A_LOOK]
        # The worst first, so that milder findings take only places of worse ones that are left over.
        for row in sorted(need_a_look, key=lambda row: (-SEVERITIES.index(row["severity"]), row["seq"])):
            places = left.get(finding_of(row, name).identity, Counter[Severity]())
            covering = SEVERITIES[SEVERITIES.index(row["severity"]) :]
            if place := next((severity for severity in covering if places[severity]), None):
                places[place] -= 1
                ids.add(row["finding_id"])
        stale = (
            identity.model_copy(update={"severity": severity, "count": count})
            for identity, places in left.items()
            for severity, count in places.items()
            if count
        )
        return Matched(frozenset(ids), tuple(stale))

    def name_of(self, trace: str) -> str:
        """Returns a trace as the file names it, which does not depend on the working directory."""
        home = self.path.absolute().parent
        return SEPARATOR.join(
            Path(os.path.relpath(place, home)).as_posix() if os.path.lexists(place) else place
            for place in places_in(trace)
        )

    def rewritten(self, found: Mapping[str, Iterable[Mapping[str, Any]]]) -> "Baseline":
        """Returns the baseline with other accepted findings for some traces, which replace those it had for them.

        Args:
            found: the findings to accept, with the columns `IDENTIFYING`, by their trace as in `runs.inputs`.
        """
        names = {trace: self.name_of(trace) for trace in found}
        others = [accepted for accepted in self.findings if accepted.trace not in names.values()]
        equal = Counter(finding_of(row, names[trace]) for trace, rows in found.items() for row in rows)
        new = [finding.model_copy(update={"count": count}) for finding, count in equal.items()]
        return Baseline(self.path, tuple(sorted([*others, *new], key=_order)))

    def write(self) -> None:
        """Writes the file, a finding a line, so that a difference shows what was accepted.

        Raises:
            UsageError: it cannot be written.
        """
        lines = ",\n".join(f"  {json.dumps(of.model_dump(exclude_defaults=True))}" for of in self.findings)
        text = f'{{\n "baseline_format": {FORMAT},\n "findings": [\n{lines}\n ]\n}}\n'
        try:
            self.path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {self.path}: {error.strerror}", "choose another --write-baseline") from None


def read_baseline(path: Path) -> Baseline:
    """Returns the baseline in a file.

    Raises:
        UsageError: the file cannot be read, or is no baseline.
    """
    way_out = "write one with --write-baseline"
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read the baseline {path}: {error.strerror}", way_out) from None
    except ValueError as error:
        raise UsageError(f"the baseline {path} is no JSON: {error}", way_out) from None
    try:
        return Baseline(path, tuple(_File.model_validate(read).findings))
    except ValidationError as error:
        raise UsageError(f"the baseline {path}: {in_words(error, read, _File)}", way_out) from None


def finding_of(row: Mapping[str, Any], trace: str) -> AcceptedFinding:
    """Returns a row of `violations` as a line of the file, with count 1.

    Args:
        row: with the columns `IDENTIFYING`.
        trace: as the file names it.
    """
    ledger, entry = row["ledger_id"], row["entry_id"]
    return AcceptedFinding(
        trace=trace,
        rule=row["rule"],
        topic=row["topic"],
        subscription=row["subscription"],
        sticky_hash=row["sticky_hash"],
        entry=None if ledger is None else f"{ledger}:{entry}",
        consumer=row["consumer_name"] or row["consumer"],
        other_consumer=row["other_consumer_name"] or row["other_consumer"],
        severity=row["severity"],
    )


def _order(finding: AcceptedFinding) -> tuple[str, ...]:
    return tuple(f"{value}" for value in finding.model_dump().values())
