"""Runs for the tests of the page, written as an audit writes them, and their pages."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browsers import opened_browser
from chart_rows import HOSTILE, T0, at, finding, tables
from table_rows import ROWS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FINDINGS = 45
MANY = 10_000


def write_run(folder: Path, run_key: str, rows: dict[str, list[dict[str, Any]]], run: dict[str, Any]) -> None:
    """Writes a run as an audit does.

    Args:
        rows: by table.
        run: what its row of `runs` says besides.
    """
    # The writer of Delta takes time to import, as does the library of the charts; most tests need neither.
    from ways import Way, by_path, held

    written = Way(None, by_path).opened(folder, run_key)
    written.write(held(rows))
    written.finish({**ROWS["runs"], "from_ts_us": T0, "to_ts_us": at(30), **run})


def of_night(ended_s: int) -> dict[str, Any]:
    """What `runs` says of a run with the rows of `chart_rows.tables`."""
    quarantined = len(HOSTILE)
    counts = {"events_in": 100, "events_audited": 100 - quarantined, "events_quarantined": quarantined}
    verdict = {"verdict": "violation", "completeness": 0.9, "inputs": [f"night/{HOSTILE[0]}"], **counts}
    return {**verdict, "from_ts_us": T0 + ended_s, "started_at_us": at(ended_s - 1), "ended_at_us": at(ended_s)}


def page_of(folder: Path, run_key: str) -> str:
    from dispatch_audit.pipeline.report.page.build import page_of_run

    return page_of_run(None, str(folder), run_key)


@pytest.fixture(scope="session")
def page_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs, of which `bbbb` is the newer: 45 findings, known bugs among them, with hostile names everywhere."""
    folder = tmp_path_factory.mktemp("page") / "target"
    severities = ["known_bug" if number % 9 == 0 else "violation" for number in range(FINDINGS)]
    findings = [finding(n, HOSTILE[n % len(HOSTILE)], severity) for n, severity in enumerate(severities)]
    write_run(folder, "aaaa", tables(findings[:3]), of_night(100))
    write_run(folder, "bbbb", tables(findings), of_night(200))
    return folder


@pytest.fixture(scope="session")
def page(page_target: Path) -> str:
    """The page of the newer run."""
    return page_of(page_target, "bbbb")


@pytest.fixture(scope="session")
def large_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a run with 10,000 findings, each of a key of 1 KB."""
    folder = tmp_path_factory.mktemp("large") / "target"
    write_run(folder, "cccc", tables([finding(number, "k" * 1_024) for number in range(MANY)]), of_night(100))
    return page_of(folder, "cccc")


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """The browser of all tests."""
    with opened_browser() as opened:
        yield opened
