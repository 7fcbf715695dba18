"""Traces and tables in an object store, as users reach them: with the answers of paths, and no secret is shown."""

import gzip
import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from embedded_commands import EmbeddedCommands
from pyspark.sql import SparkSession
from store_fixtures import Bucket, rows_of

import dispatch_audit
from dispatch_audit.pipeline.storage.options import options_given
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.trace import open_traces
from dispatch_audit.pipeline.trace.workers.good_columns import good_columns

SAMPLE = Path("data/samples/heavy-churn-3.0.7")
# Times, and the name of the trace with the keys that are made of it.
CIRCUMSTANCES = {"started_at", "started_at_us", "ended_at", "ended_at_us", "stages", "inputs", "run_key", "chain"}

pytestmark = pytest.mark.e2e


class Said:
    """Runs commands with the options of a bucket, and keeps all that they print."""

    def __init__(self, run: EmbeddedCommands, bucket: Bucket) -> None:
        self._run, self._bucket, self.texts = run, bucket, list[str]()

    def __call__(self, *arguments: object, exit_code: int = 0) -> "subprocess.CompletedProcess[str]":
        done = self._run(*arguments, *self._bucket.arguments)
        self.texts += [done.stdout, done.stderr]
        assert done.returncode == exit_code, done.stderr
        return done


def test_a_trace_and_tables_in_a_store_are_as_on_this_machine(
    run_embedded: EmbeddedCommands, bucket: Bucket, tmp_path: Path
) -> None:
    said, trace, tables = Said(run_embedded, bucket), bucket.upload(SAMPLE, "night"), f"{bucket.uri}/tables"
    local = run_embedded("audit", SAMPLE, "--out", tmp_path / "tables", "--format", "json", "--fail-on", "never")
    done = said("audit", trace, "--out", tables, "--format", "json", "--fail-on", "never", "--debug")
    assert json.loads(done.stdout)["order"] == json.loads(local.stdout)["order"] == "known_bug"
    found = {table: bucket.rows(f"tables/{table}", CIRCUMSTANCES) for table in TABLES}
    for table, rows in found.items():
        assert rows == rows_of(DeltaTable(tmp_path / "tables" / table), CIRCUMSTANCES), table
    (run,) = bucket.rows("tables/runs", set())
    assert f"'inputs': ['{trace}']" in run
    assert list(bucket.at("tables/_replay").rglob()) == []

    said("report", tables, "--out", tmp_path / "page.html")
    read = dispatch_audit.read_audit(tables, storage_options=bucket.options)
    worst = read.findings[0].finding_id
    assert read.table("violations").num_rows == sum(found["violations"].values())  # with the options of the call
    story = said("explain", tables, "--violation", worst)
    assert trace in story.stdout

    # Not in what was printed, nor in the page, nor in any table or its log.
    secrets = {bucket.options["AWS_SECRET_ACCESS_KEY"], bucket.options["AWS_ACCESS_KEY_ID"]}
    stored = [file.read_bytes().decode(errors="replace") for file in bucket.at("tables").rglob() if file.is_file()]
    for text in (*said.texts, (tmp_path / "page.html").read_text(), repr(read), run, *found["violations"], *stored):
        assert not any(secret in text for secret in secrets)


@pytest.mark.slow
def test_a_run_replaces_its_rows_in_a_store(run_embedded: EmbeddedCommands, bucket: Bucket) -> None:
    said, trace, tables = Said(run_embedded, bucket), bucket.upload(SAMPLE, "night"), f"{bucket.uri}/tables"
    found = []
    for _ in range(2):
        said("audit", trace, "--out", tables, "--fail-on", "never", "--log-format", "json")
        found.append({table: bucket.rows(f"tables/{table}", CIRCUMSTANCES) for table in TABLES})
    assert found[0] == found[1]
    assert list(bucket.at("tables/_replay").rglob()) == []


@pytest.mark.slow
def test_other_commands_take_a_store_too(run_embedded: EmbeddedCommands, bucket: Bucket, tmp_path: Path) -> None:
    said, trace, converted = Said(run_embedded, bucket), bucket.upload(SAMPLE, "night"), f"{bucket.uri}/converted"
    said("convert", trace, "--to", converted)
    refused = said("convert", trace, "--to", converted, exit_code=2)
    assert "is not empty; choose another --to, or pass --replace" in refused.stderr
    said("convert", trace, "--to", converted, "--replace")
    # A folder with a Delta table and its manifest, and a glob.
    texts = [said("validate", of).stdout for of in (converted, f"{trace}/*.jsonl.gz")]
    assert {text.splitlines()[1] for text in texts} == {"Read    20,371 events, 0 would be quarantined (0 %)"}

    dump = next(file for file in sorted(Path("data/statistics/23429-draining").rglob("*")) if file.is_file())
    bucket.at(f"dumps/{dump.name}").write_bytes(dump.read_bytes())
    bucket.at(f"packed/{dump.name}.gz").write_bytes(gzip.compress(dump.read_bytes()))
    answers = [
        run_embedded("diagnose", f"{bucket.uri}/{of}", *bucket.arguments, "--out", f"{bucket.uri}/tables").stdout
        for of in ("dumps", f"packed/{dump.name}.gz")
    ]
    assert [answer.splitlines()[0][:7] for answer in answers] == ["HELD UP"] * 2
    assert bucket.at("tables/diagnoses/_delta_log").is_dir()

    whole = bucket.upload(SAMPLE, "tables/night")
    refused = said("audit", whole, "--out", f"{bucket.uri}/tables", exit_code=2)
    assert "has the trace" in refused.stderr


@pytest.mark.slow
def test_windows_continue_from_the_state_in_a_store(run_embedded: EmbeddedCommands, bucket: Bucket) -> None:
    said, trace, tables = Said(run_embedded, bucket), bucket.upload(SAMPLE, "night"), f"{bucket.uri}/tables"
    middle = "2026-11-21T01:43:20Z"
    said("audit", trace, "--out", tables, "--to", middle, "--fail-on", "never")
    said("audit", trace, "--out", tables, "--to", "2026-11-21T02:00:00Z", "--fail-on", "never")
    runs = Counter(row.partition("'starts_from': ")[2].partition(",")[0] for row in bucket.rows("tables/runs", set()))
    assert runs == {"'beginning'": 1, "'state'": 1}


@pytest.mark.parametrize(
    ("trace", "out", "changed", "said"),
    [
        ("s3://nowhere-at-all/night", "tables", {}, "cannot reach s3://nowhere-at-all/night: NoSuchBucket"),
        (SAMPLE, "s3://nowhere-at-all/tables", {}, "cannot read the table runs in s3://nowhere-at-all/tables: NoSuch"),
        (SAMPLE, "{bucket}/tables", {"AWS_SECRET_ACCESS_KEY": "mistyped"}, "SignatureDoesNotMatch"),
        (SAMPLE, "{bucket}/tables", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "Connection refused"),
        ("{bucket}/empty", "{bucket}/tables", {}, "there is no trace at s3://"),
        ("{bucket}/empty*", "{bucket}/tables", {}, "nothing matches s3://"),
    ],
)
def test_a_store_that_refuses_is_one_line_and_a_wrong_call(
    run_embedded: EmbeddedCommands, bucket: Bucket, trace: object, out: str, changed: dict[str, str], said: str
) -> None:
    options = {**bucket.options, **changed}
    arguments = [str(text).replace("{bucket}", bucket.uri) for text in (trace, "--out", out)]
    done = run_embedded("audit", *arguments, *Bucket(options, bucket.uri).arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert said in line
    assert not any(value in line for value in options.values())


@pytest.mark.spark
def test_workers_of_spark_read_a_store_themselves(spark: SparkSession, bucket: Bucket) -> None:
    columns = ("seq", "event", "topic", "consumer", "positions")
    rows = []
    for place in (bucket.upload(SAMPLE, "night"), str(SAMPLE)):
        with options_given(bucket.options):
            (trace,) = open_traces([place])
        rows.append(Counter(map(repr, good_columns(spark, trace, columns).collect())))
    stored, local = rows
    assert stored == local
    assert stored.total() == 20_371
