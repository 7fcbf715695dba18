"""The page that leads to those of several runs: a line for each, those that need a look first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args
from urllib.parse import quote

from dispatch_audit.pipeline.report.answers import Answer, Tone, answers_on, answers_on_all, worse
from dispatch_audit.pipeline.report.page.render import template
from dispatch_audit.pipeline.report.summary import RunSummary, Summary
from dispatch_audit.pipeline.report.wording import moment, printable, together

_INDEX = "index.html.j2"


@dataclass(frozen=True)
class _Line:
    """A run in the index; the template only lays it out."""

    file: str
    trace: str
    answers: tuple[Answer, ...]
    findings: int
    begins: str
    run_key: str

    @property
    def badness(self) -> int:
        """How bad the worse answer is."""
        return get_args(Tone).index(worse(answer.tone for answer in self.answers))


def index_of(summary: Summary, files: Mapping[str, str]) -> str:
    """Returns the index as an HTML document.

    Args:
        summary: of at least two runs.
        files: the name of the page of each run, which lies beside the index, by its key.
    """
    lines = sorted((_line(run, files[run.run_key]) for run in summary.runs), key=lambda line: -line.badness)
    unusable = [(printable(path), printable(str(error))) for path, error in summary.unusable]
    return template(_INDEX).render(
        lines=lines, answers=answers_on_all(summary), target=summary.target, unusable=unusable
    )


def _line(run: RunSummary, file: str) -> _Line:
    found: Sequence[int] = [sum(rule.findings.values()) for rule in run.rules]
    begins = "" if run.from_ts_us is None else f"{moment(run.from_ts_us)} UTC"
    return _Line(quote(file), together(run.inputs), answers_on(run), sum(found), begins, run.run_key)
