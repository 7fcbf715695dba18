"""The notebook, cell by cell, as Databricks runs it and as a checkout does."""

import types
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "notebooks" / "findings.py"
CELL = "# COMMAND ----------"

pytestmark = [pytest.mark.spark, pytest.mark.e2e, pytest.mark.slow]


def subscription() -> list[str]:
    header, _, body = NOTEBOOK.read_text().partition("\n")
    assert header == "# Databricks notebook source"
    return [cell.strip() for cell in body.split(CELL)]


def run(**given: Any) -> dict[str, Any]:
    """Runs the subscription of code in one namespace, which is returned."""
    # A module, as what is defined in one cell is looked for by its name in another.
    notebook = types.ModuleType("notebook")
    vars(notebook).update(given)
    for number, cell in enumerate(subscription()):
        if not cell.startswith("# MAGIC"):
            exec(compile(cell, f"cell {number}", "exec"), vars(notebook))
    return vars(notebook)


def drawn(chart: Any) -> list[dict[str, Any]]:
    """The rows that a chart draws."""
    (rows,) = chart.to_dict()["datasets"].values()
    return list(rows)


@pytest.fixture(scope="module")
def in_a_checkout(spark: SparkSession) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return run()


def test_words_and_code_do_not_share_a_cell() -> None:
    for cell in subscription():
        kinds = {line.startswith("# MAGIC") for line in cell.splitlines() if line}
        assert len(kinds) == 1, cell


def test_a_checkout_audits_a_sample_and_draws_what_it_found(in_a_checkout: dict[str, Any]) -> None:
    assert in_a_checkout["metrics"].loc["single_holder", "known_bug"] == 13
    lanes = drawn(in_a_checkout["waiting_chart"])
    assert {lane["cause"] for lane in lanes} == set(in_a_checkout["blocking"]["cause"])
    assert "recently_joined" in {lane["cause"] for lane in lanes}
    assert drawn(in_a_checkout["blockers_chart"])[0]["label"] == "c2 #4 held up c105 #14"
    assert len({rectangle["consumer"] for rectangle in drawn(in_a_checkout["ownership_chart"])}) == 25
    assert drawn(in_a_checkout["hot_keys_chart"])[0]["label"].startswith("key-0 ")


def test_waiting_is_added_up_as_in_the_report(in_a_checkout: dict[str, Any]) -> None:
    summary = in_a_checkout["newest"].summary
    reported = {cause.cause: cause.message_seconds for cause in summary.causes}
    assert in_a_checkout["waited"]["message_seconds"].to_dict() == pytest.approx(reported)


def test_on_databricks_widgets_say_which_tables_are_shown(in_a_checkout: dict[str, Any]) -> None:
    values = {"trace": "", "target": in_a_checkout["asked"]["target"], "profile": ""}
    made: list[str] = []
    shown: list[pd.DataFrame] = []
    widgets = types.SimpleNamespace(text=lambda name, default: made.append(name), get=values.__getitem__)
    returned = run(dbutils=types.SimpleNamespace(widgets=widgets), display=shown.append)
    assert made == ["trace", "target", "profile"]
    assert returned["newest"].run_keys == in_a_checkout["newest"].run_keys
    assert len(shown) == 5
    assert all(isinstance(table, pd.DataFrame) and len(table) for table in shown)
