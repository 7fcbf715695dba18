# Databricks notebook source
# MAGIC %md
# MAGIC # Findings of an audit
# MAGIC
# MAGIC Shows the newest run in the tables of a target. If `trace` is set, the notebook audits it into the target first;
# MAGIC otherwise it shows the tables of the nightly job. On Databricks a trace is in a volume or is a table: Spark
# MAGIC reads other paths from DBFS.

# COMMAND ----------

import tempfile
from pathlib import Path
from typing import Any

# `dbutils`, `display` and a session exist on Databricks. Elsewhere the notebook audits a sample of this repository.
WIDGETS = globals()["dbutils"].widgets if "dbutils" in globals() else None
NAMES = ("trace", "target", "profile")
if WIDGETS is None:
    sample = Path.cwd() / "data" / "samples" / "heavy-churn-3.0.7"
    asked = {"trace": str(sample), "target": tempfile.mkdtemp(), "profile": ""}
else:
    for name in NAMES:
        WIDGETS.text(name, "")
    asked = {name: WIDGETS.get(name) for name in NAMES}


def show(table: Any) -> None:
    """Shows a frame of pandas: with `display` on Databricks, else as text."""
    print(table.to_string()) if WIDGETS is None else globals()["display"](table)


# COMMAND ----------

import dispatch_audit

if asked["trace"]:
    dispatch_audit.audit(asked["trace"], out=asked["target"], profile=asked["profile"] or None, progress=print)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The newest run

# COMMAND ----------

newest = dispatch_audit.read_audit(asked["target"])
runs = newest.pandas("runs")
shown = ["order_verdict", "progress", "held_up_seconds", "completeness", "events_in", "events_quarantined"]
show(runs[[*shown, "profile", "inputs"]])
ended_us = runs["to_ts_us"][0]

# COMMAND ----------

# MAGIC %md
# MAGIC ## Rules: findings by severity

# COMMAND ----------

WEIGHTS = ["violations", "known_bug", "not_provable", "permitted", "info"]
metrics = newest.pandas("metrics").groupby("rule")[["checked", *WEIGHTS]].sum().sort_index()
show(metrics.reset_index())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Violations and known bugs with their explanations

# COMMAND ----------

violations = newest.pandas("violations")
worst = violations[violations["severity"].isin(["violation", "known_bug"])].sort_values("ts").head(20)
show(worst[["rule", "severity", "key", "ts", "what", "against", "why", "remedy"]])

# COMMAND ----------

# MAGIC %md
# MAGIC ## Waiting: causes, times, and who blocked whom

# COMMAND ----------

from dispatch_audit.pipeline.report.charts.blockers import who_blocked_whom
from dispatch_audit.pipeline.report.charts.theme import use
from dispatch_audit.pipeline.report.charts.waiting import waiting_over_time

use("light")
blocking = newest.pandas("blocking").drop(columns="root_positions")
# The scopes of a cause overlap and must not be added up: the one with the most message-seconds counts.
waited = blocking.groupby(["cause", "scope"])[["message_seconds"]].sum().groupby("cause").max()
show(waited.reset_index())
waiting_chart = waiting_over_time(blocking, ended_us)
waiting_chart

# COMMAND ----------

blockers_chart = who_blocked_whom(blocking)
blockers_chart

# COMMAND ----------

# MAGIC %md
# MAGIC ## Assignment: who owned the hash space

# COMMAND ----------

from dispatch_audit.pipeline.report.charts.ownership import ownership_over_time

# Of one subscription: each has a hash space of its own.
assignments = newest.pandas("assignments")
group = ["topic", "subscription"]
first = assignments[group].drop_duplicates().head(1)
ownership_chart = ownership_over_time(assignments.merge(first, on=group), ended_us)
ownership_chart

# COMMAND ----------

# MAGIC %md
# MAGIC ## Hot keys

# COMMAND ----------

hot = newest.pandas("hot_keys")
most = hot.sort_values("dispatched", ascending=False).head(10)
show(most[["key", "sticky_hash", "dispatched", "dispatched_share", "unacked_max", "blocked_seconds"]])

# COMMAND ----------

from dispatch_audit.pipeline.report.charts.hot_keys import traffic_of_keys

hot_keys_chart = traffic_of_keys(hot)
hot_keys_chart
