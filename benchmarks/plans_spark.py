"""The plans on Spark, all in a session like the audit's own."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks import two_rules
from benchmarks.own_floor import own_floor, placed
from benchmarks.plan import READS_TRACES, Engine, EngineName, Found, Name, Run, log_in
from benchmarks.row_floor import row_floor
from benchmarks.two_rules import Broken
from dispatch_audit.jobs.engines.load import Load, load_of
from dispatch_audit.jobs.session import spark_session
from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.trace import open_traces


def started(name: Name, engine: EngineName, trace: Path) -> Engine:
    """A plan of `_PREPARED` with the session that suits it and its trace."""
    # What the command line would choose; but plans with readers of their own need the JVM for every row.
    load = load_of(open_traces([trace]))
    if load is Load.CHUNKS and name not in READS_TRACES:
        load = Load.ROWS
    spark = spark_session("dispatch-audit benchmark", load=load, engine=engine)
    shuffled = partial(_shuffled_bytes, spark) if engine == "spark" else lambda: None
    return Engine(partial(_PREPARED[name], spark), shuffled)


def two_rules_on(spark: SparkSession, trace: Path) -> Run:
    """The two rules of `benchmarks.two_rules` as window functions."""
    log = log_in(trace)
    source = "delta" if log.suffix == ".delta" else "parquet"
    events = spark.read.format(source).load(str(log))

    def run() -> Found:
        events.createOrReplaceTempView("events")
        sent = two_rules.sent("events", "xxhash64(topic)", "xxhash64(topic, key)")
        spark.sql(sent).createOrReplaceTempView("sent")
        spark.sql(two_rules.acked("events", "explode", "xxhash64(topic)")).createOrReplaceTempView("acked")
        rules = (two_rules.FIRST_DELIVERY_ORDER, two_rules.SINGLE_HOLDER)
        try:
            broken = Broken(*(int(spark.sql(two_rules.counted(rule)).collect()[0][0]) for rule in rules))
        finally:
            # The caller may go on using the session.
            for view in ("events", "sent", "acked"):
                spark.catalog.dropTempView(view)
        return broken._asdict

    return run


def _audit(spark: SparkSession, trace: Path, scratch: Path) -> Run:
    """The whole audit, into the tables of a fresh target."""
    request = AuditRequest((str(trace),), str(scratch), None, load_settings())

    def run() -> Found:
        audit(spark, request, lambda _: None)
        return found

    def found() -> Mapping[str, int]:
        (row,) = parse_target(str(scratch)).read(spark, "runs").select("events_audited").collect()
        return {"rows": int(row["events_audited"])}

    return run


def _own_floor(spark: SparkSession, trace: Path, _: Path) -> Run:
    """The audit's plan, counting; it finds the groups by itself, as the audit has to."""
    return _counting(lambda: own_floor(spark, trace))


def _row_floor(spark: SparkSession, trace: Path, _: Path) -> Run:
    """The plan of rows, counting; it gets the groups from outside."""
    found = placed(spark, trace)
    return _counting(lambda: row_floor(spark, trace, found.groups, found.tasks))


def _counting(plan: Callable[[], DataFrame]) -> Run:
    def run() -> Found:
        rows = sum(int(row["rows"]) for row in plan().collect())
        return lambda: {"rows": rows}

    return run


_PREPARED: Mapping[Name, Callable[[SparkSession, Path, Path], Run]] = {
    "audit": _audit,
    "row_floor": _row_floor,
    "own_floor": _own_floor,
    "spark_sql": lambda spark, trace, _: two_rules_on(spark, trace),
}


def _shuffled_bytes(spark: SparkSession) -> int:
    """Bytes that all stages so far have written into exchanges. Only the JVM's own list of stages has them."""
    scala = spark.sparkContext._jsc.sc()
    # The list is written by a thread of its own.
    scala.listenerBus().waitUntilEmpty()
    store = scala.statusStore()
    no_quantiles = getattr(store, "stageList$default$4")()
    stages = store.stageList(None, False, False, no_quantiles, None)
    return sum(int(stages.apply(at).shuffleWriteBytes()) for at in range(stages.size()))
