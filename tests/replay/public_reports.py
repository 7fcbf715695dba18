"""The traces made from public reports, and what the rules find in one without an engine, tables or a report."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Final, NamedTuple

from local_replay import tables_of_batches
from recorded_batches import recorded_batches

from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS, worst_verdict

DATA: Final = Path(__file__).resolve().parents[1] / "data"
EXPECTED: Final[dict[str, dict[str, Any]]] = {
    f"{folder}/{name}": expected
    for folder in ("reports", "reports4", "reports5")
    for name, expected in json.loads((DATA / folder / "expect.json").read_text()).items()
}
"""What a right audit says, by the folder of the trace. `reports` has bugs of brokers, `reports4` and `reports5` what
clients, filters, limits and restarts do."""


class Judged(NamedTuple):
    """The verdict on a trace, and by rule and severity how many findings it has, besides how many were `checked`."""

    verdict: str
    rules: dict[str, Counter[str]]


def judged(name: str, version: str | None = None) -> Judged:
    """Replays a trace, as one of a broker of another version if one is given."""
    path = f"../{name}"
    rules: dict[str, Counter[str]] = defaultdict(Counter)
    for row in tables_of_batches(path, recorded_batches(path), version=version)["metrics"]:
        counts = {severity: row[column] for column, severity in COUNT_COLUMNS.items()}
        rules[row["rule"]].update(checked=row["checked"], **counts)
    found = {severity for of in rules.values() for severity in COUNT_COLUMNS.values() if of[severity]}
    return Judged(worst_verdict(found), rules)


def wrong_rules(expected: dict[str, Any], verdict: str, rules: dict[str, Any]) -> list[str]:
    """What rules find otherwise than expected."""

    def counted(rule: str, *severities: str) -> int:
        return sum(rules.get(rule, {}).get(severity) or 0 for severity in severities)

    wrong = [f"{rule} is missing" for rule, of in expected.get("want", {}).items() if not counted(rule, *of)]
    wrong += [f"{rule} is false" for rule in expected.get("no", []) if counted(rule, "violation", "known_bug")]
    if verdict != expected.get("verdict", verdict) or verdict not in expected.get("any_of", [verdict]):
        wrong.append(f"the verdict is {verdict}")
    return wrong
