"""A trace whose names try to break out of every report, from the log through Spark and the tables to the files."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.report.wording import printable

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

SCHEMA = Path(__file__).resolve().parents[1] / "report" / "sarif-2.1.0-rtm.5.json"
NAME = "a\"b'<c>&]]>-->\n::error::owned\r%0A##[error]|`_*[link](http://evil.test) @team {0} \\ \x1b[2J\x00\u202e"
SENT = {"event": "dispatch", "topic": NAME, "subscription": NAME, "consumer": 1, "ledger_id": 7, "entry_id": 0}


def test_names_break_out_of_no_report(
    spark: SparkSession,
    run_cli: Callable[..., tuple[int, str, str]],
    write_trace: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    joined = {"event": "join", "topic": NAME, "subscription": NAME, "consumer": 1, "consumer_name": NAME}
    published = {"event": "publish", "topic": NAME, "ledger_id": 7, "entry_id": 0, "producer_name": NAME}
    key = {"batch_size": 1, "key_b64": "PGI+Ojo6ZXJyb3I6Og=="}  # <b>:::error::
    rows = (joined, published | key, SENT | key, SENT | key)
    trace = write_trace([row | {"seq": at, "ts_us": at * 100_000} for at, row in enumerate(rows, start=1)])
    monkeypatch.chdir(trace)
    page = tmp_path / "page.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    files = {form: tmp_path / f"report.{form}" for form in ("text", "json", "junit", "sarif")}
    options = [f"--report={form}={file}" for form, file in files.items()]
    code, out, err = run_cli("audit", ".", "--out", tmp_path / "out", "--format", "github", "--quiet", *options)
    assert (code, err) == (1, "")

    name = printable(NAME)
    (command,) = out.splitlines()
    assert re.fullmatch(r"::error file=events\.jsonl,line=4,title=early_duplicate%3A violation::[^\n]*", command)
    assert name.replace("%", "%25") in command

    suites = ET.fromstring(files["junit"].read_bytes())
    assert (suites.attrib["failures"], {case.attrib["classname"] for case in suites.iter("testcase")}) == (
        "1",
        {f"{name}, {name}"},
    )
    sarif = json.loads(files["sarif"].read_text())
    jsonschema.Draft4Validator(json.loads(SCHEMA.read_text())).validate(sarif)
    assert [result["ruleId"] for result in sarif["runs"][0]["results"]] == ["early_duplicate"]
    assert json.loads(files["json"].read_text())["traces"][0]["hot_keys"][0]["topic"] == NAME
    assert not set(files["text"].read_text()) & set("\x00\x1b\r\u202e")
    # Two tables of a heading, a rule and a row each.
    assert sum(line.startswith("|") for line in page.read_text().splitlines()) == 6
    assert "evil" in page.read_text()
    assert not re.search(r"<|http:|@", page.read_text())
