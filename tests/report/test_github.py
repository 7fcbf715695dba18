"""The report for GitHub Actions, read as its runner and a Markdown renderer read it."""

import re
from dataclasses import replace
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from report_rows import (
    BOTH,
    BROKEN,
    DUPLICATE,
    FINDING,
    HELD_UP,
    HOSTILE,
    OF_HOSTILES,
    ONLY_CLEAN,
    TABLES,
    WITH_UNUSABLE,
    trace_at,
)

from dispatch_audit.pipeline.report.ci.github import annotations, markdown
from dispatch_audit.pipeline.report.summary import Summary
from dispatch_audit.pipeline.report.wording import printable

EXPLAIN = "dispatch-audit explain /tmp/report --violation 3f2a9c04d1b7"

# actions/runner, ActionCommand.TryParseV2: the command, its properties, and all that follows the next colons.
COMMAND = re.compile(r"^::(?P<name>\S+) (?P<properties>.*?)::(?P<data>.*)$")


def commands(summary: Summary) -> list[tuple[str, dict[str, str], str]]:
    text = annotations(summary, [trace_at(Path.cwd() / "traces" / str(at)) for at, _ in enumerate(summary.runs)])
    return [parsed(line) for line in text.splitlines()]


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    found = COMMAND.match(line)
    assert found is not None, line
    properties = dict(part.split("=", 1) for part in found["properties"].split(","))
    return found["name"], {name: unescaped(value) for name, value in properties.items()}, unescaped(found["data"])


def unescaped(text: str) -> str:
    for escape, character in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(escape, character)
    return text


def text_of(tokens: list[Token]) -> str:
    return "".join(text_of(token.children) if token.children else token.content for token in tokens)


def test_an_annotation_a_finding() -> None:
    holder, duplicate = commands(BOTH)
    assert holder == (
        "error",
        {"file": "traces/0/events.jsonl", "title": "single_holder: violation"},
        f"what: {FINDING.what}\nagainst: {FINDING.against}\nwhere: {FINDING.topic}, {FINDING.subscription}\n"
        f"more: {EXPLAIN}",
    )
    assert duplicate[1]["title"] == "early_duplicate: known bug (F10)"


def test_levels_are_those_of_the_runner_the_worst_first() -> None:
    findings = tuple(replace(FINDING, severity=severity) for severity in ("info", "not_provable", "violation"))
    reported = commands(Summary("/tmp/report", TABLES, (replace(BROKEN, findings=findings),)))
    assert [name for name, _, _ in reported] == ["error", "warning", "notice"]


def test_no_more_are_named_than_are_shown() -> None:
    run = replace(BROKEN, findings=(FINDING,) * 11 + (replace(FINDING, severity="not_provable"),) * 2)
    reported = [name for name, _, _ in commands(Summary("/tmp/report", TABLES, (run, run)))]
    assert (reported.count("error"), reported.count("warning")) == (10, 4)


def test_one_trace_does_not_take_up_all_the_room() -> None:
    many = replace(BROKEN, findings=(FINDING,) * 11)
    other = replace(BROKEN, findings=(DUPLICATE, replace(DUPLICATE, seq=32)))
    titles = [properties["title"] for _, properties, _ in commands(Summary("/tmp/report", TABLES, (many, other)))]
    assert titles[:4] == ["single_holder: violation", "early_duplicate: known bug (F10)"] * 2
    assert len(titles) == 10


def test_names_of_clients_do_not_steer_the_runner() -> None:
    ((name, properties, data),) = commands(OF_HOSTILES)
    assert (name, set(properties)) == ("error", {"file", "title"})
    name = printable(HOSTILE)
    assert data.split("\n") == [
        f"what: entry 7:120 went to {name}",
        f"against: {name} held it",
        f"why: {name}",
        f"remedy: {name}",
        f"where: {name}, {name}",
        f"more: {EXPLAIN}",
    ]


def test_a_path_or_a_bug_does_not_end_its_property() -> None:
    run = replace(BROKEN, findings=(replace(DUPLICATE, known_bug="F4, F2 (::)"),))
    text = annotations(Summary("/tmp/report", TABLES, (run,)), [trace_at(Path.cwd() / "a,b::c %")])
    _, properties, data = parsed(text)
    assert properties == {"file": "a,b::c %/events.jsonl", "title": "early_duplicate: known bug (F4, F2 (::))"}
    assert data.startswith(f"what: {DUPLICATE.what}\n")


def test_a_time_without_progress_is_a_warning(tmp_path: Path) -> None:
    name, properties, data = parsed(annotations(Summary("/tmp/report", TABLES, (HELD_UP,)), [trace_at(tmp_path)]))
    assert (name, properties) == ("warning", {"file": "traces/hung", "title": "progress: held up"})
    assert data == (
        "held up for 7.3 s by red (consumer 1) (draining): nothing was sent to any consumer although entries waited"
    )


def test_the_page_counts_rules_and_lists_findings() -> None:
    page = markdown(BOTH)
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    headings = [text_of([tokens[at + 1]]) for at, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings == ["traces/night: order broken, progress flowing", "traces/day: order kept, progress flowing"]
    subscription = [text_of([tokens[at + 1]]) for at, token in enumerate(tokens) if token.type == "td_open"]
    assert subscription[:3] == ["early_duplicate", "3,000", "1 known bug"]
    assert FINDING.explanation in subscription
    assert "14 more findings; the worst of them are in table" in page
    assert "No findings; 2 rules checked." in markdown(ONLY_CLEAN)
    (clean,) = ONLY_CLEAN.runs
    idle = replace(clean, rules=(replace(clean.rules[0], checked=0), *clean.rules[1:]))
    assert "No findings; 1 rule checked, 1 had nothing to check." in markdown(replace(ONLY_CLEAN, runs=(idle,)))


def test_a_page_of_many_traces_stays_below_what_a_step_may_show() -> None:
    wordy = replace(BROKEN, findings=(replace(FINDING, explanation="." * 2_000),) * 20)
    page = markdown(Summary("/tmp/report", TABLES, (wordy,) * 9))
    shown = page.count("### traces")
    assert 0 < shown < 9
    assert len(page.encode()) < 1 << 20
    assert page.endswith(f"{9 - shown} more traces, at worst order broken, progress flowing: see table `runs`.\n")


def test_names_of_clients_are_text_on_the_page() -> None:
    page = markdown(OF_HOSTILES)
    tokens = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(page)
    inline = [child.type for token in tokens for child in token.children or ()]
    # The run key is the only code; there is no link, tag or emphasis, and no row or heading more.
    assert set(inline) == {"text", "code_inline"}
    assert [token.type for token in tokens].count("tr_open") == 4
    subscription = [text_of([tokens[at + 1]]) for at, token in enumerate(tokens) if token.type == "td_open"]
    name = printable(HOSTILE)
    assert subscription[-3:] == [f"{name}, {name}, key {name}, seq 20", f"entry 7:120 went to {name}", EXPLAIN]
    assert not re.search(r"https?:|www\.|@|#\d", re.sub(r"&#\d+;", "", page))


def test_a_trace_from_outside_of_the_broker_says_what_it_cannot_show() -> None:
    page = markdown(Summary("/tmp/report", TABLES, (replace(BROKEN, recorded_by="admin_api"),)))
    assert "\nRecorded from the admin API, which shows single moments: no rule could be judged, because" in page
    assert "Recorded" not in markdown(BOTH)


def test_an_accepted_finding_is_no_annotation_and_is_marked_on_the_page() -> None:
    accepted = replace(BOTH, runs=(replace(BROKEN, findings=(replace(FINDING, accepted=True), DUPLICATE)),))
    assert "single_holder" not in annotations(accepted, [trace_at(Path.cwd())])
    assert "single&#95;holder&#58; violation, accepted" in markdown(accepted)


def test_traces_that_could_not_be_audited_stand_at_the_head_of_the_page() -> None:
    assert markdown(WITH_UNUSABLE).startswith(
        "- traces/torn is unusable: traces/torn is empty; record it again\n\n### "
    )
