"""The alerts and the dashboard of `monitoring/`: their metrics are those of real brokers, and rules fire on them."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dispatch_audit.pipeline.statistics.reading.samples import Series, series_in

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "monitoring"
RECORDED = ROOT / "tests" / "data" / "metrics"
RULES = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text())
ALERTS = {
    "hung-consumer": {"SubscriptionAtLookAheadLimit", "BacklogGrowsAndNothingIsSent"},
    "unacked-limit-subscription": {"SubscriptionBlockedOnUnacknowledged", "BacklogGrowsAndNothingIsSent"},
    "paused-consumer": {"ConsumerOwesPermits"},
    "healthy-load": set(),
    "backlog-read": set(),
}
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not there: apt-get install prometheus"
)


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def alerts() -> Iterator[dict[str, Any]]:
    for group in RULES["groups"]:
        yield from group["rules"]


def expressions() -> list[str]:
    """All expressions of the alerts and the dashboard, without the dashboard's variables."""
    of_panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    replaced = [re.sub(r"\$(topic|subscription)", ".+", one).replace("$__rate_interval", "5m") for one in of_panels]
    return [rule["expr"] for rule in alerts()] + replaced


def recorded(name: str) -> list[Series]:
    return list(series_in((RECORDED / f"{name}.txt").read_text()))


def test_each_metric_is_one_of_a_real_broker() -> None:
    known = {one.name for path in RECORDED.glob("*.txt") for one in recorded(path.stem)}
    named = {name for expression in expressions() for name in re.findall(r"pulsar_\w+", expression)}

    assert named
    assert named <= known


def test_panels_do_not_cover_each_other() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [(at["x"] + x, at["y"] + y) for at in places for x in range(at["w"]) for y in range(at["h"])]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_page_names_each_alert() -> None:
    page = (ROOT / "docs" / "MONITORING.md").read_text()
    assert all(f"`{rule['alert']}`" in page for rule in alerts())


@needs_promtool
def test_promtool_accepts_the_rules_and_their_tests() -> None:
    promtool("check", "rules", MONITORING / "alerts.yaml")
    promtool("test", "rules", MONITORING / "alerts_test.yaml")


@needs_promtool
def test_promtool_can_parse_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": one} for number, one in enumerate(expressions())]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", tmp_path / "rules.yaml")


@needs_promtool
@pytest.mark.parametrize("state", ALERTS)
def test_the_alerts_of_a_state_fire_on_what_a_broker_in_it_exposed(state: str, tmp_path: Path) -> None:
    """The three scrapes of a recorded broker follow each other in minutes, then go on as they moved last."""
    series: dict[str, list[float]] = {}
    for one in recorded(f"{state}-4.2.4"):
        if not one.name.endswith("_timestamp"):
            selector = ",".join(f'{key}="{value}"' for key, value in one.labels.items())
            series.setdefault(f"{one.name}{{{selector}}}", []).append(one.points[0][1])
    inputs = [{"series": name, "values": _continued(values)} for name, values in series.items()]
    firing = []
    for rule in alerts():
        name = rule["alert"]
        samples = [{"labels": f'{{alertname="{name}"}}', "value": 1}] if name in ALERTS[state] else []
        expr = f'count by (alertname) (ALERTS{{alertname="{name}",alertstate="firing"}})'
        firing.append({"expr": expr, "eval_time": "19m", "exp_samples": samples})
    test_file = {
        "rule_files": [str(MONITORING / "alerts.yaml")],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": inputs, "promql_expr_test": firing}],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test_file))
    promtool("test", "rules", tmp_path / "test.yaml")


def _continued(values: list[float]) -> str:
    step = values[-1] - values[-2]
    return f"{' '.join(map(str, values[:-1]))} {values[-1]}{step:+}x20"
