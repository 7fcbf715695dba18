"""The page of a run, as a document: what it says, what it escapes, and how large it is."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altair
import pyarrow as pa
import pytest
from chart_rows import HOSTILE, finding, tables
from outline import Outline
from page_fixtures import page_of, write_run
from report_rows import BROKEN, FINDING

from dispatch_audit.jobs.reports import FileFormat, ReportFile, write_reports
from dispatch_audit.pipeline.contract.fail_on import parse_fail_on
from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.replay.state.values import Cause
from dispatch_audit.pipeline.report.page.findings import FINDINGS_MAX, finding_views, shown_findings
from dispatch_audit.pipeline.report.page.index import index_of
from dispatch_audit.pipeline.report.page.next_steps import next_steps
from dispatch_audit.pipeline.report.page.rows import PageRows
from dispatch_audit.pipeline.report.page.vega_bundle import STATIC
from dispatch_audit.pipeline.report.query import summarise
from dispatch_audit.pipeline.report.text.report import ReportOptions
from dispatch_audit.pipeline.report.wording import sentence
from dispatch_audit.pipeline.report.words import CAUSES as MEANINGS
from dispatch_audit.pipeline.trace import UnusableTrace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RunCli = Callable[..., tuple[int, str, str]]

MEGABYTE = 1 << 20
_NOTHING: Any = {of.name: [] for of in fields(PageRows)}
_NO_ROWS = PageRows(**_NOTHING)


@pytest.fixture(scope="module")
def outline(page: str) -> Outline:
    return Outline(page)


def test_the_answer_comes_first(outline: Outline) -> None:
    text = " ".join(outline.text.split())
    order = ("Violation", "an older version of the audit", "What to do next", "90 % of the trace", "Evidence")
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)


def test_each_finding_has_its_evidence_and_its_command(outline: Outline, page_target: Path) -> None:
    ids = outline.values("id")
    for number in range(45):
        identity = finding(number, "k")["finding_id"]
        assert f"finding-{identity}" in ids
        assert f"dispatch-audit explain {page_target} --violation {identity}" in outline.text
    assert outline.text.count("dispatched to red") >= 45


def test_every_link_leads_to_a_place_of_the_page(outline: Outline) -> None:
    ids = outline.values("id")
    assert len(ids) == len(set(ids))
    links = [link for link in outline.values("href") if link != "data:,"]
    assert len(links) > 10
    assert {link.removeprefix("#") for link in links} <= set(ids)


def test_every_chart_has_words_and_numbers(outline: Outline, page: str) -> None:
    charts = outline.values("data-chart")
    assert len(charts) == 11
    assert outline.tags.count("figure") - len(outline.values("data-story")) == len(charts)
    assert all(outline.values("aria-label"))
    assert page.count('<details class="numbers">') == len(charts)


def test_names_of_clients_are_text(outline: Outline, page: str) -> None:
    assert "img" not in outline.tags
    assert outline.tags.count("script") == 3
    assert not [name for name, _ in outline.attributes if name.startswith("on")]
    shown = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in HOSTILE[2])
    assert shown in outline.text
    assert "alert(1)" in outline.text
    # Characters that would turn the text around them.
    assert not {"\u202e", "\u202c", "\x1b", "\x00"} & set(page)


def test_the_data_of_the_charts_cannot_end_their_element(page: str) -> None:
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    (rows,) = json.loads(data)["charts"]["hot-keys-chart"]["datasets"].values()
    assert rows[0]["label"].startswith("</script><script>")


def test_a_page_fetches_nothing_and_allows_only_its_own_scripts(page: str, outline: Outline) -> None:
    (policy,) = [value for name, value in outline.attributes if name == "content" and "default-src" in value]
    assert "default-src 'none'" in policy
    assert policy.count("'sha256-") == 2
    assert "unsafe-eval" not in policy
    assert not outline.values("src")


def test_long_keys_are_clipped_with_their_text_on_demand(outline: Outline) -> None:
    assert "all 1,024 characters" in outline.text
    assert "k" * 1_024 in outline.text


def test_a_run_with_ten_thousand_findings_is_a_small_page(large_page: str) -> None:
    assert len(large_page.encode()) < 5 * MEGABYTE
    assert large_page.count('<details class="finding"') == FINDINGS_MAX
    assert "10,000 in all; the page has the worst 200" in " ".join(large_page.split())


def test_every_severity_has_its_turn_and_the_worst_comes_first(page_target: Path) -> None:
    (run,) = summarise(None, str(page_target), ["bbbb"]).runs
    shown = shown_findings(run)
    assert [f.severity for f in shown] == ["violation"] * 40 + ["known_bug"] * 5


def test_the_remedy_of_a_known_bug_is_a_step_once_and_that_of_a_fact_is_none() -> None:
    bug = replace(FINDING, severity="known_bug", known_bug="F2", remedy="Upgrade.")
    fact = replace(FINDING, severity="info", remedy="Publish one key per batch.")
    found = (bug, replace(bug, finding_id="90be55a1c2d3"), replace(bug, remedy=None), fact)
    views = finding_views(found, _NO_ROWS, "out")
    assert [step for step, _ in next_steps(replace(BROKEN, findings=found), views, "tables")].count("Upgrade.") == 1
    assert "Publish one key per batch." not in dict(next_steps(replace(BROKEN, findings=found), views, "tables"))


def test_a_finding_is_shown_by_its_parts() -> None:
    one = replace(FINDING, against="red still <held> it", why=("a", "known bug F2: b"), remedy="Upgrade.")
    (view,) = finding_views([one], _NO_ROWS, "out")
    assert (view.what, view.against) == (sentence(one.what), "red still <held> it")
    assert (view.why, view.remedy) == (("a", "known bug F2: b"), "Upgrade.")


def test_the_script_of_the_charts_is_that_of_the_installed_altair() -> None:
    """Otherwise a chart may use what the script does not know; `make vega` writes it anew."""
    head = (STATIC / "vega.js").read_text(encoding="utf-8")[:40]
    assert head.startswith(f"/*! Vega-Lite {altair.SCHEMA_VERSION.removeprefix('v').rpartition('.')[0]}\n")


def test_the_command_writes_the_newest_run(page_target: Path, tmp_path: Path, run_cli: RunCli) -> None:
    out = tmp_path / "page.html"
    assert run_cli("report", page_target, "--out", out) == (0, "", f"wrote {out}\n")
    assert "<code>bbbb</code>" in out.read_text()
    assert run_cli("report", page_target, "--run", "aaaa", "--out", out)[0] == 0
    assert "<code>aaaa</code>" in out.read_text()


def test_an_audit_of_several_traces_writes_a_page_of_each(page_target: Path, tmp_path: Path) -> None:
    summary = summarise(None, str(page_target), ["aaaa", "bbbb"])
    write_reports(
        None,
        summary,
        [],
        parse_fail_on(["never"]),
        "json",
        [ReportFile("html", tmp_path / "night.html")],
        ReportOptions(),
    )
    alone = replace(summary, runs=summary.runs[:1])
    write_reports(
        None, alone, [], parse_fail_on(["never"]), "json", [ReportFile("html", tmp_path / "one.html")], ReportOptions()
    )
    pages = ["night-aaaa.html", "night-bbbb.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*pages, "night.html", "one.html"]
    assert "<code>bbbb</code>" in (tmp_path / "night-bbbb.html").read_text()
    index = Outline((tmp_path / "night.html").read_text())
    assert [link for link in index.values("href") if link != "data:,"] == pages
    assert index.tags.count("script") == 0
    assert index.text.count("alert(1)") >= 2


def test_the_index_names_the_traces_that_could_not_be_audited(page_target: Path) -> None:
    summary = summarise(None, str(page_target), ["aaaa", "bbbb"])
    files = {"aaaa": "a.html", "bbbb": "b.html"}
    assert "Not audited" not in index_of(summary, files)
    torn = UnusableTrace("traces/<torn>", TraceError("traces/<torn> is empty", "record it again"))
    index = Outline(index_of(replace(summary, unusable=(torn,)), files))
    assert "traces/<torn> is empty; record it again" in index.text


def test_a_report_for_people_names_the_files_beside_it(page_target: Path, tmp_path: Path, capsys: Any) -> None:
    summary = summarise(None, str(page_target), ["aaaa", "bbbb"])
    files: list[ReportFile[FileFormat]] = [
        ReportFile("html", tmp_path / "night.html"),
        ReportFile("junit", tmp_path / "night.xml"),
    ]
    write_reports(None, summary, [], parse_fail_on(["never"]), "text", files, ReportOptions())
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Wrote ")]
    pages = f"{tmp_path}/night.html and 2 pages that it leads to, night-*.html"
    assert line == f"Wrote   {pages}, {tmp_path}/night.xml"


def test_every_cause_is_said_in_other_words_where_it_stands(outline: Outline) -> None:
    assert set(MEANINGS) == {cause.word for cause in Cause} - {"ready"}
    for word in ("draining", "message-second"):
        assert word in outline.text
    assert MEANINGS["draining"] in outline.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("{target}", "--run", "dddd", "--out", "{folder}/p.html"),
            "has no run dddd; leave --run out, or take one of its",
        ),
        (("{target}", "--run", "' OR TRUE --", "--out", "{folder}/p.html"), "has no run ' OR TRUE --"),
        (("{folder}", "--out", "{folder}/p.html"), "has no tables of an audit; name the --out of an audit"),
        (("{target}", "--out", "{folder}"), "it is a folder; name a file"),
        (("{target}", "--out", "{folder}/none/p.html"), "its folder does not exist; create the folder"),
    ],
)
def test_a_call_that_cannot_be_answered_ends_with_the_way_out(
    arguments: tuple[str, ...], said: str, page_target: Path, tmp_path: Path, run_cli: RunCli
) -> None:
    filled = [argument.format(target=page_target, folder=tmp_path) for argument in arguments]
    code, out, err = run_cli("report", *filled)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_the_page_needs_no_spark_and_no_compiler(page_target: Path, tmp_path: Path) -> None:
    """What takes seconds to import: the page is there in two."""
    call = (
        "import sys; from dispatch_audit.jobs.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "print([name for name in ('numba', 'pandas', 'grpc', 'pysail', 'delta') if name in sys.modules])"
    )
    command = [sys.executable, "-c", call, "report", str(page_target), "--out", str(tmp_path / "page.html")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.returncode) == ("[]\n", 0), ran.stderr


def test_a_run_without_rows_has_a_page(tmp_path: Path) -> None:
    """A window in which nothing happened."""
    write_run(tmp_path, "eeee", {}, {"verdict": "clean", "events_in": 0, "events_audited": 0, "events_quarantined": 0})
    outline = Outline(page_of(tmp_path, "eeee"))
    text = " ".join(outline.text.split())
    assert "Nothing to do: entries waited briefly or not at all." in text
    assert not outline.values("data-chart")


def test_a_run_with_many_subscriptions_draws_the_worst_of_them(tmp_path: Path) -> None:
    def of_topic(row: dict[str, Any], number: int) -> dict[str, Any]:
        return {**row, "topic": f"persistent://shop/eu/orders-partition-{number}"}

    rows = tables([finding(1, "k")])
    many = {
        name: [of_topic(row, number) for row in rows[name] for number in range(300)]
        for name in ("metrics", "assignments", "capacity", "consumers")
    }
    for row in many["metrics"]:
        row["violations"] = int(row["topic"].endswith("-217"))
    write_run(tmp_path, "ffff", {**rows, **many}, {"verdict": "violation"})
    page = page_of(tmp_path, "ffff")
    charts = Outline(page).values("data-chart")
    assert sum(name.startswith("ownership") for name in charts) == 4
    assert page.index("orders-partition-217, workers</bdi></h3>") < page.index("orders-partition-0, workers</bdi></h3>")
    assert "296 more are in the tables" in page
    assert len(page) < 2 * MEGABYTE


@pytest.mark.spark
@pytest.mark.slow
def test_tables_read_through_spark_give_the_same_page(page_target: Path, page: str, spark: "SparkSession") -> None:
    from dispatch_audit.pipeline.report.page.build import page_of_run

    uri = f"file://{page_target}"
    assert page_of_run(spark, uri, "bbbb").replace(uri, str(page_target)) == page


def test_a_trace_from_outside_of_the_broker_says_what_it_cannot_show(tmp_path: Path) -> None:
    write_run(tmp_path, "9999", {}, {"verdict": "not_provable", "recorded_by": "client"})
    shown = page_of(tmp_path, "9999")
    assert "recorded in a client, after the dispatch: the order of a key at each consumer" in shown


def test_a_run_of_older_tables_has_a_page(tmp_path: Path) -> None:
    """Their `runs` and `coverage` lack the columns of the answers, and nothing is added to them."""
    from deltalake import DeltaTable, write_deltalake

    write_run(tmp_path, "dddd", tables([finding(1, "k")]), {"verdict": "violation"})
    for name in ("runs", "coverage"):
        folder = str(tmp_path / name)
        held = pa.table(DeltaTable(folder).to_pyarrow_table())
        answers = {"order_verdict", "progress", "held_up_seconds", "held_up_by", "missing", "dispatches"}
        older = held.select([column for column in held.column_names if column not in answers])
        write_deltalake(folder, older, mode="overwrite", schema_mode="overwrite")
    text = " ".join(Outline(page_of(tmp_path, "dddd")).text.split())
    assert "Verdict: violation." in text
    assert "an older version of the audit wrote this run" in text.lower()
