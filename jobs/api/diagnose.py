"""Says from the statistics of a broker who holds a subscription up."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyspark.sql import SparkSession
from rich.console import Console

from dispatch_audit.jobs.api.arguments import PathLike, Paths, texts
from dispatch_audit.jobs.api.preparation import EngineNeeds, session_for
from dispatch_audit.jobs.engines.choice import EngineOption
from dispatch_audit.jobs.engines.delta import needs_delta
from dispatch_audit.jobs.engines.load import Load
from dispatch_audit.jobs.one_error import one_error
from dispatch_audit.jobs.reports import as_text
from dispatch_audit.pipeline.storage.options import options_given
from dispatch_audit.pipeline.tables.target import parse_target

if TYPE_CHECKING:
    from dispatch_audit.pipeline.statistics.diagnose import Result
    from dispatch_audit.pipeline.statistics.diagnosis import Diagnosis

FailOnCertainty = Literal["proved", "compatible", "never"]
DiagnosisForm = Literal["text", "json", "html"]


@dataclass(frozen=True)
class Diagnoses:
    """The answers on all subscriptions of some dumps.

    Attributes:
        result: the diagnoses, and what was left out.
        fail_on: what makes `failed` true.
    """

    result: "Result"
    fail_on: FailOnCertainty = "proved"

    @property
    def diagnoses(self) -> "tuple[Diagnosis, ...]":
        """The answer on each subscription, those that need a look first."""
        return self.result.diagnoses

    @property
    def failed(self) -> bool:
        """Whether something holds messages up, as surely as `fail_on` asks."""
        if self.fail_on == "compatible":
            return any(diagnosis.certainty is not None for diagnosis in self.diagnoses)
        return self.fail_on == "proved" and self.result.is_alarm

    def print_to(self, console: Console, show: int = 3) -> None:
        """Writes the text to a console; `show` subscriptions have all facts."""
        # Imported here, because other calls need nothing of it.
        from dispatch_audit.pipeline.statistics.output.text import print_diagnoses  # noqa: PLC0415

        print_diagnoses(self.result, console, show)

    def report(self, form: DiagnosisForm = "text", *, show: int = 3) -> str:
        """Returns the answers as text, JSON or a page.

        Args:
            form: of the report.
            show: subscriptions that the text shows with all facts.
        """
        if form == "json":
            # Imported here, because other calls need nothing of it.
            from dispatch_audit.pipeline.statistics.output.as_json import json_diagnoses  # noqa: PLC0415

            return json_diagnoses(self.result)
        if form == "html":
            # Imported here: the library of the charts, whose look the page has, takes 0.4 s.
            from dispatch_audit.pipeline.statistics.output.page import page_of  # noqa: PLC0415

            return page_of(self.result)
        return as_text(lambda console: self.print_to(console, show)).rstrip("\n")


def diagnose(
    files: Paths,
    *,
    version: str | None = None,
    fail_on: FailOnCertainty = "proved",
    out: PathLike | None = None,
    spark: SparkSession | None = None,
    engine: EngineOption = "auto",
    storage_options: Mapping[str, str] | None = None,
    debug: bool = False,
) -> Diagnoses:
    """Says from a broker's statistics who holds messages up.

    Args:
        files: what `pulsar-admin topics stats` and `stats-internal` print, or metrics, of one moment or several; `-` is
            standard input; a folder is one of `record-stats`.
        version: release of the broker; None: as the recording says.
        fail_on: how sure the answer has to be for `Diagnoses.failed`.
        out: also add the answers to the Delta table `diagnoses` of this target.
        spark: a session, for a target in a catalog.
        engine: as `--engine`, for such a target without a session.
        storage_options: credentials and settings of object stores, as `--storage-option`; None: from the environment.
        debug: whether to show the output of an engine that is started.

    Raises:
        UsageError: a file does not exist, or the target cannot be written.
        TraceError: a file holds no statistics of a subscription.
        InternalError: a fault of the diagnosis.
    """
    with one_error(), options_given(storage_options):
        # Imported here, because other calls need nothing of it.
        from dispatch_audit.pipeline.statistics.diagnose import diagnose as run_diagnosis  # noqa: PLC0415
        from dispatch_audit.pipeline.statistics.files import inputs_of  # noqa: PLC0415

        target = None if out is None else parse_target(texts(out)[0])
        result = run_diagnosis(inputs_of(texts(files), sys.stdin.buffer), version)
        if target is not None:
            # Imported here, because few diagnoses are kept, and Delta takes half a second.
            from dispatch_audit.pipeline.statistics.output.table import write_diagnoses  # noqa: PLC0415

            session = spark
            if session is None and target.place is None:
                needs, module = EngineNeeds(Load.BRIEF, needs_delta(target, ())), write_diagnoses.__module__
                session = session_for(engine, needs, debug, meanwhile_import=module)
            write_diagnoses(result, target, session)
        return Diagnoses(result, fail_on)
