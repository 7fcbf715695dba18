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

from dispatch_audit.jobs.session import spark_session
from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.target import parse_target

session = spark_session("dispatch-audit findings")
if asked["trace"]:
    request = AuditRequest((asked["trace"],), asked["target"], asked["profile"] or None, load_settings())
    audit(session, request, print)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The newest run

# COMMAND ----------

target = parse_target(asked["target"])
newest = target.read(session, "runs").orderBy("started_at_us", ascending=False).first()
assert newest is not None, f"there is no run in {target}"
run_key = newest["run_key"]


def rows_of(table: str) -> Any:
    """The rows of the newest run."""
    return target.read(session, table).where(f"run_key = '{run_key}'")


runs = rows_of("runs").select("verdict", "completeness", "events_in", "events_quarantined", "profile", "inputs")
show(runs.toPandas())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Rules: findings by severity

# COMMAND ----------

from matplotlib import pyplot as plt

WEIGHTS = ["violations", "known_bug", "not_provable", "permitted", "info"]
metrics = rows_of("metrics").select("rule", "checked", *WEIGHTS).groupBy("rule").sum().toPandas().set_index("rule")
metrics = metrics.rename(columns=lambda name: name.removeprefix("sum(").removesuffix(")")).sort_index()
show(metrics.reset_index())
rules_figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
metrics[WEIGHTS].plot.barh(stacked=True, ax=axes, xlabel="findings", ylabel="")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Violations and known bugs with their explanations

# COMMAND ----------

violations = rows_of("violations").where("severity IN ('violation', 'known_bug')")
show(violations.select("rule", "severity", "key", "ts", "explanation").orderBy("ts").limit(20).toPandas())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Waiting: causes and times

# COMMAND ----------

blocking = rows_of("blocking").select("cause", "scope", "from_ts_us", "to_ts_us", "message_seconds").toPandas()
# The scopes of a cause overlap and must not be added up: the one with the most message-seconds counts.
waited = blocking.groupby(["cause", "scope"])[["message_seconds"]].sum().groupby("cause").max()
show(waited.reset_index())
first_us = min(blocking["from_ts_us"], default=0)
waiting_figure, axes = plt.subplots(figsize=(9, 3), layout="constrained")
for cause, intervals in blocking.groupby("cause"):
    begin_s = (intervals["from_ts_us"] - first_us) / 1e6
    # Open intervals have no end; they are drawn to the end of the trace.
    end_s = (intervals["to_ts_us"].fillna(newest["to_ts_us"]) - first_us) / 1e6
    axes.hlines([cause] * len(intervals), begin_s, end_s, linewidth=9, alpha=0.3)
axes.set_xlabel("seconds since the first wait")

# COMMAND ----------

# MAGIC %md
# MAGIC ## Hot keys

# COMMAND ----------

hot = rows_of("hot_keys").select(
    "key", "sticky_hash", "dispatched", "dispatched_share", "unacked_max", "blocked_seconds"
)
show(hot.orderBy("dispatched", ascending=False).limit(10).toPandas())
