"""`explain` as users run it: an audited sample, its findings, and the shortest trace of one, audited again."""

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from embedded_commands import EmbeddedCommands
from samples import SAMPLES

ROOT = SAMPLES.parents[1]
PAGE = ROOT / "docs" / "EXPLAIN.md"
FINDING = "176ebcb9e931"
RunCli = Callable[..., tuple[int, str, str]]
Audit = Callable[..., None]
Explained = Callable[..., str]
# It covers the version of the code.
_KEY_OF_RUN = re.compile(r"run [0-9a-f]{16}")
TARGET = "audit-tables"

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def audit(run_embedded: EmbeddedCommands) -> Audit:
    """Audits in a folder, and returns nothing."""

    def run(folder: Path, *arguments: object) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            assert run_embedded("audit", *arguments, "--fail-on", "never").returncode == 0

    return run


@pytest.fixture(scope="module")
def audited(audit: Audit, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sample, which has been audited there."""
    folder = tmp_path_factory.mktemp("work")
    shutil.copytree(SAMPLES / "heavy-churn-3.0.7", folder / "data" / "samples" / "heavy-churn-3.0.7")
    audit(folder, "data/samples/heavy-churn-3.0.7", "--out", TARGET)
    return folder


@pytest.fixture
def folder(audited: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same as the working directory."""
    monkeypatch.chdir(audited)
    return audited


@pytest.fixture
def explained(folder: Path, run_cli: RunCli) -> Explained:
    """Explains something of the target of the sample, or of another; returns what is printed."""

    def explain(*arguments: object, target: object = TARGET) -> str:
        code, out, error = run_cli("explain", target, *arguments)
        assert code == 0, error
        return out + error

    return explain


def examples() -> Iterator[tuple[str, str]]:
    """The commands of the page with their output; a line `...` stands for lines that are left out."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = example.partition("\n")
            yield command, output


@pytest.mark.parametrize(("command", "output"), list(examples()), ids=lambda text: text.split("\n")[0][:60])
def test_the_page_shows_what_the_commands_print(folder: Path, run_cli: RunCli, command: str, output: str) -> None:
    shutil.rmtree(folder / "shortest", ignore_errors=True)
    _, out, error = run_cli(*shlex.split(command)[1:])
    printed = _KEY_OF_RUN.sub("run", out + error)
    begin, left_out, end = _KEY_OF_RUN.sub("run", output).partition("\n...\n")
    assert printed.startswith(begin) and printed.endswith(end) if left_out else printed == begin


def test_the_shortest_trace_gives_the_same_finding_when_it_is_audited(
    audit: Audit, folder: Path, explained: Explained, tmp_path: Path
) -> None:
    done = explained("--violation", FINDING, "--export", tmp_path / "shortest")
    rows = (tmp_path / "shortest" / "events.jsonl").read_text().splitlines()
    assert 0 < len(rows) <= 30
    _, _, trace, _, target = shlex.split(done.rpartition("audit them: ")[2])
    # Where a path of the trace stays whole, and is none that another test has left.
    audit(folder, trace, "--out", target)
    (finding,) = rows_of(target, "violations")
    (original,) = [row for row in rows_of(folder / TARGET, "violations") if row["finding_id"] == FINDING]
    for column in ("finding_id", "rule", "severity", "sticky_hash", "key", "ledger_id", "entry_id", "consumer", "seq"):
        assert finding[column] == original[column]
    reported = json.loads(explained("--violation", FINDING, "--format", "json", target=target))
    assert [event["completes_finding"] for event in reported["events"]] == [False] * (len(reported["events"]) - 1) + [
        True
    ]


def rows_of(target: object, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(f"{target}/{table}").to_pyarrow_table().to_pylist()
    return found


def test_a_hash_without_a_moment_is_shown_around_its_first_finding(explained: Explained) -> None:
    reported = json.loads(explained("--key", "key-7", "--format", "json"))
    assert reported["finding"]["finding_id"] == FINDING
    by_hash = json.loads(explained("--hash", reported["sticky_hash"], "--format", "json"))
    assert by_hash["events"] == reported["events"]


def test_a_consumer_and_an_entry_are_followed(explained: Explained) -> None:
    span = ("--from", "2026-11-21T01:43:18.9", "--to", "2026-11-21T01:43:19")
    of_consumer = json.loads(explained("--consumer", "flap104", *span, "--format", "json"))
    (row,) = of_consumer["consumers"]
    assert (row["consumer"], row["consumer_name"]) == (12, "flap104")
    assert of_consumer["events"][0]["event"] == "join"
    assert {event["consumer"] for event in of_consumer["events"]} == {12}
    assert all(event["ts_us"] < 1_795_225_399_000_000 for event in of_consumer["events"])
    of_entry = json.loads(explained("--entry", "1:1196", "--format", "json"))
    assert (of_entry["entry"], of_entry["sticky_hash"]) == ("1:1196", 2054334308)
    sent = [event["consumer"] for event in of_entry["events"] if event["event"] == "dispatch"]
    assert sent[0] == 12


def test_the_state_at_a_moment_needs_no_trace(folder: Path, run_cli: RunCli, explained: Explained) -> None:
    hidden = (folder / "data").rename(folder / "elsewhere")
    try:
        found = json.loads(explained("--at", "2026-11-21T01:43:18.9", "--format", "json"))
        assert [row["consumer_name"] for row in found["consumers"]] == ["c2", "c100", "c101", "c103"]
        assert {row["consumer"] for row in found["ranges"]} == {4, 7, 9, 11}
        code, out, error = run_cli("explain", TARGET, "--violation", FINDING)
        assert (code, out) == (2, "")
        assert error.endswith("; pass --trace PATH, where it is now\n")
        moved = "--trace", "elsewhere/samples/heavy-churn-3.0.7", "--violation", FINDING, "--events", 1
        assert ">> 2026-11-21 01:43:18.961  seq 6545" in explained(*moved)
    finally:
        hidden.rename(folder / "data")


def test_the_working_directory_changes_neither_the_run_nor_where_its_trace_is(
    audit: Audit, run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night, moved = tmp_path / "night", tmp_path / "moved"
    shutil.copytree(SAMPLES / "heavy-churn-3.0.7", night / "trace")
    audit(tmp_path, "night/trace", "--out", "night/tables", "--quiet")
    audit(night, "../night/trace", "--out", "tables", "--quiet")
    runs = DeltaTable(night / "tables" / "runs").to_pyarrow_table().to_pylist()
    assert [run["inputs"] for run in runs] == [[str(night / "trace")]]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    question = "--violation", FINDING, "--events", 1
    code, story, _ = run_cli("explain", night / "tables", *question)
    assert (code, str(night / "trace") in story) == (0, True)
    # The tables went to another place with the trace beside them.
    night.rename(moved)
    code, again, error = run_cli("explain", moved / "tables", *question)
    assert (code, error, again) == (0, "", story.replace(str(night), str(moved)))


def test_a_finding_of_a_window_has_the_id_and_the_story_that_it_has_in_the_whole_log(
    audit: Audit, folder: Path, explained: Explained, tmp_path: Path
) -> None:
    cut = "2026-11-21T01:43:18.95"
    audit(folder, "data/samples/heavy-churn-3.0.7", "--out", tmp_path, "--to", cut)
    audit(folder, "data/samples/heavy-churn-3.0.7", "--out", tmp_path, "--from", cut)
    ids = [{row["finding_id"] for row in rows_of(target, "violations")} for target in (tmp_path, TARGET)]
    assert ids[0] == ids[1]
    in_window, whole = (
        json.loads(explained("--violation", FINDING, "--format", "json", target=target))
        for target in (tmp_path, TARGET)
    )
    assert in_window["finding_holds"]
    assert in_window["events"] == whole["events"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (),
            "explain needs a finding, a hash, a key, an entry, a consumer or a moment; pass --violation ID, --hash H,",
        ),
        (("--consumer", "nobody"), "has no consumer nobody, but "),
        (("--entry", "1-2"), "1-2 is no entry; write LEDGER:ENTRY, as reports do: 3:25"),
        (("--at", "2026-11-21", "--consumer", "c2", "--from", "2026-11-21"), "--at asks for a moment, --from and --to"),
        (("--hash", 5, "--key", "k"), "--hash and --key ask for different stories; pass one of them"),
        (("--violation", FINDING, "--at", "2026-11-21"), "--violation has a moment of its own and takes no other"),
        (("--hash", 5, "--export", "x"), "--export writes the shortest trace of a finding; pass --violation ID"),
        (("--violation", FINDING, "--export", "data"), "data exists; name a new folder after --export"),
        (
            ("--violation", "nothing"),
            "nothing is no id of a finding; ids are the 12 hex digits in violations.finding_id",
        ),
        (
            ("--violation", "0" * 12),
            f"has no finding {'0' * 12}; take an id from violations.finding_id or from a report",
        ),
        (("--at", "2026-11-21", "--run", "ff"), "has no run ff; audit a trace into it first, or name another target"),
        (("--at", "2026-11-21", "--topic", "t"), "the run has no such subscription, but persistent://"),
        (("--key", "nobody's"), "no row of the trace is about key nobody's (hash "),
    ],
)
def test_wrong_calls_say_what_to_do(folder: Path, run_cli: RunCli, arguments: tuple[object, ...], message: str) -> None:
    code, out, error = run_cli("explain", TARGET, *arguments)
    assert (code, out) == (2, "")
    assert message in error
    assert error.count("\n") == 1


def test_findings_of_an_older_version_have_no_ids_yet(folder: Path, run_cli: RunCli, tmp_path: Path) -> None:
    for name in ("runs", "violations"):
        rows = DeltaTable(str(folder / TARGET / name)).to_pyarrow_table()
        write_deltalake(str(tmp_path / name), rows.drop_columns(["finding_id"] if name == "violations" else []))
    code, _, error = run_cli("explain", tmp_path, "--violation", FINDING)
    assert code == 2
    assert error.endswith("the findings have no ids yet; audit again with this version\n")
