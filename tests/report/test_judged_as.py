"""A release that no profile was read for is named in every report, with the release that it is judged as."""

import json
from dataclasses import replace
from html import unescape
from io import StringIO

import pytest
from report_rows import BROKEN, TABLES
from rich.console import Console

from dispatch_audit.pipeline.report.ci.github import markdown
from dispatch_audit.pipeline.report.json_summary import json_summary
from dispatch_audit.pipeline.report.summary import Summary
from dispatch_audit.pipeline.report.text.report import print_report
from dispatch_audit.pipeline.report.validation import json_validation, print_validation
from dispatch_audit.pipeline.run.request import ValidationResult

UNREAD = replace(BROKEN, profile="pulsar-4.0.14", pulsar_version="4.0.15")
WORDS = "no profile was read for Pulsar 4.0.15: it is judged as 4.0.14, the last release of its branch"
READ = replace(BROKEN, profile="pulsar-4.0.14", pulsar_version="4.0.14")


def reports(run: object) -> list[str]:
    summary = Summary("/tmp/report", TABLES, (run,))  # type: ignore[arg-type]  # a run
    text = StringIO()
    print_report(summary, Console(file=text, width=300))
    return [text.getvalue(), markdown(summary), json_summary(summary)]


def test_it_is_said_in_text_on_the_page_of_a_job_and_in_json() -> None:
    text, page, summary = reports(UNREAD)
    assert WORDS in text
    assert WORDS in unescape(page)
    assert WORDS in summary


def test_of_a_release_that_was_read_nothing_is_said() -> None:
    assert not any("no profile was read" in report for report in reports(READ))


def test_programs_can_ask_for_it() -> None:
    reported = [json.loads(reports(run)[2])["traces"][0]["judged_as"] for run in (UNREAD, READ)]
    assert reported == [f"{WORDS} that one was read for", None]


@pytest.mark.parametrize("judged_as", [f"{WORDS} that one was read for", None])
def test_validate_says_it_too(judged_as: str | None) -> None:
    result = ValidationResult("mine", "pulsar-4.0.14", judged_as, 10, 0, {}, "")
    text = StringIO()
    print_validation([result], Console(file=text, width=300))
    assert ("no profile was read" in text.getvalue()) == (judged_as is not None)
    assert json.loads(json_validation([result]))["traces"][0]["judged_as"] == judged_as
