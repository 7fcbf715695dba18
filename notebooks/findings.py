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


runs = rows_of("runs").select(
    "order_verdict",
    "progress",
    "held_up_seconds",
    "completeness",
    "events_in",
    "events_quarantined",
    "profile",
    "inputs",
)
show(runs.toPandas())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Rules: findings by severity

# COMMAND ----------

WEIGHTS = ["violations", "known_bug", "not_provable", "permitted", "info"]
metrics = rows_of("metrics").select("rule", "checked", *WEIGHTS).groupBy("rule").sum().toPandas().set_index("rule")
metrics = metrics.rename(columns=lambda name: name.removeprefix("sum(").removesuffix(")")).sort_index()
show(metrics.reset_index())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Violations and known bugs with their explanations

# COMMAND ----------

violations = rows_of("violations").where("severity IN ('violation', 'known_bug')")
worded = violations.select("rule", "severity", "key", "ts", "what", "against", "why", "remedy")
show(worded.orderBy("ts").limit(20).toPandas())

# COMMAND ----------

# MAGIC %md
# MAGIC ## Waiting: causes, times, and who blocked whom

# COMMAND ----------

from dispatch_audit.pipeline.report.charts.blockers import who_blocked_whom
from dispatch_audit.pipeline.report.charts.theme import use
from dispatch_audit.pipeline.report.charts.waiting import waiting_over_time

use("light")
blocking = rows_of("blocking").drop("root_positions").toPandas()
# The scopes of a cause overlap and must not be added up: the one with the most message-seconds counts.
waited = blocking.groupby(["cause", "scope"])[["message_seconds"]].sum().groupby("cause").max()
show(waited.reset_index())
waiting_chart = waiting_over_time(blocking, newest["to_ts_us"])
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
assignments = rows_of("assignments").toPandas()
group = ["topic", "subscription"]
first = assignments[group].drop_duplicates().head(1)
ownership_chart = ownership_over_time(assignments.merge(first, on=group), newest["to_ts_us"])
ownership_chart

# COMMAND ----------

# MAGIC %md
# MAGIC ## Hot keys

# COMMAND ----------

hot = rows_of("hot_keys").select(
    "key", "sticky_hash", "dispatched", "dispatched_share", "unacked_max", "blocked_seconds"
)
show(hot.orderBy("dispatched", ascending=False).limit(10).toPandas())

# COMMAND ----------

from dispatch_audit.pipeline.report.charts.hot_keys import traffic_of_keys

hot_keys_chart = traffic_of_keys(rows_of("hot_keys").toPandas())
hot_keys_chart
