"""Compares dispatchers on the same traffic."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql import SparkSession
from rich.console import Console

from dispatch_audit.jobs.api.arguments import PathLike, Progress, path_or_none, silent, texts
from dispatch_audit.jobs.api.preparation import needs_of, session_for, traces_in, warn_of_unknown_names
from dispatch_audit.jobs.engines.choice import EngineOption
from dispatch_audit.jobs.one_error import one_error
from dispatch_audit.jobs.reports import as_text
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.storage.options import options_given

if TYPE_CHECKING:
    # It imports the simulation, which takes a second.
    from dispatch_audit.pipeline.simulate.comparison.comparison import VariantComparison, VariantResult

ComparisonForm = Literal["text", "markdown", "json", "html"]
_MOST: Final = 10_000_000

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Comparison:
    """What several dispatchers would have done with the same traffic.

    Attributes:
        compared: the traffic, and the result of each dispatcher.
    """

    compared: "VariantComparison"

    @property
    def dispatchers(self) -> "tuple[VariantResult, ...]":
        """The result of each dispatcher; the first one is that of the traffic, as given."""
        return self.compared.dispatchers

    def as_json(self) -> dict[str, Any]:
        """Returns the measures as one object for programs (docs/SIMULATION.md)."""
        return self.compared.as_json()

    def print_to(self, console: Console) -> None:
        """Writes the text to a console."""
        # Imported here, because only this form needs it.
        from dispatch_audit.pipeline.simulate.comparison.text import print_comparison  # noqa: PLC0415

        print_comparison(self.compared, console)

    def report(self, form: ComparisonForm = "text", *, width: int | None = None) -> str:
        """Returns the comparison.

        Args:
            form: of the report; `html` is a page with charts.
            width: columns to wrap a text at; None: whole lines.
        """
        if form == "text":
            return as_text(self.print_to, width)
        if form == "json":
            return json.dumps(self.as_json(), indent=1)
        if form == "markdown":
            # Imported here, because only this form needs it.
            from dispatch_audit.pipeline.simulate.comparison.markdown import markdown  # noqa: PLC0415

            return markdown(self.compared)
        # Imported here: the library of the charts takes 0.4 s.
        from dispatch_audit.pipeline.simulate.comparison.page import page_of  # noqa: PLC0415

        return page_of(self.compared)


def what_if(
    traffic: PathLike,
    *,
    judge: bool = True,
    search: str | Sequence[str] = (),
    partitions: int | None = None,
    topics: Sequence[str] = (),
    subscriptions: Sequence[str] = (),
    seed: int = 0,
    config: PathLike | None = None,
    spark: SparkSession | None = None,
    engine: EngineOption = "auto",
    storage_options: Mapping[str, str] | None = None,
    progress: Progress = silent,
    debug: bool = False,
) -> Comparison:
    """Compares dispatchers on a trace or a described workload.

    Args:
        traffic: a recorded trace, or a workload in TOML.
        judge: whether what each dispatcher did is audited: violations and blocked time.
        search: settings whose smallest value without a stall is looked for; several: of all together.
        partitions: simulate the first so many partitions only; None: all.
        topics: names or patterns of the topics of a trace that are simulated; none: all.
        subscriptions: the same of subscriptions.
        seed: decides what is random in the broker.
        config: TOML with settings of the audit to change.
        spark: a session to run on; None: `engine` says what is started or found.
        engine: as `--engine`.
        storage_options: credentials and settings of object stores, as `--storage-option`; None: from the environment.
        progress: called with the name of each stage as it begins.
        debug: whether to show the output of an engine that is started.

    Raises:
        UsageError: an argument makes no sense, or nothing of the trace can be simulated.
        TraceError: the trace cannot be read.
        InternalError: a fault of the simulation.
    """
    with one_error(), options_given(storage_options):
        # Imported here, because it takes a second, which calls that read no trace need not wait.
        from dispatch_audit.pipeline.simulate.setting_names import refuse_limits, without_effect  # noqa: PLC0415
        from dispatch_audit.pipeline.simulate.traffic import broker_of, opened, traffic_of  # noqa: PLC0415
        from dispatch_audit.pipeline.simulate.variants import variants_for  # noqa: PLC0415
        from dispatch_audit.pipeline.trace import Trace  # noqa: PLC0415
        from dispatch_audit.pipeline.trace.chosen_rows import ChosenRows  # noqa: PLC0415

        limits = (search,) if isinstance(search, str) else tuple(search)
        refuse_limits(limits)
        (name,) = texts(traffic)
        source = opened(name)
        warn_of_unknown_names(traces_in(source))
        settings = load_settings(path_or_none(config))
        version, recorded = broker_of(source)
        variants = variants_for(version, recorded)
        setups = [variant.setup(version, recorded, seed) for variant in variants]
        for sentence in without_effect((), setups[0]):
            _log.warning(sentence)
        progress("start the engine")
        module = "dispatch_audit.pipeline.simulate.what_if"
        session = session_for(engine, needs_of(source), debug, meanwhile_import=module, given=spark)
        # Imported here, because `session_for` imports it while the engine starts.
        from dispatch_audit.pipeline.simulate.comparison.comparison import (  # noqa: PLC0415
            VariantComparison,
            VariantResult,
        )
        from dispatch_audit.pipeline.simulate.comparison.recorded import recorded_row  # noqa: PLC0415
        from dispatch_audit.pipeline.simulate.what_if import compared, smallest_without_stall  # noqa: PLC0415

        progress("read the traffic")
        taken = traffic_of(source, session, partitions, chosen=ChosenRows(topics, subscriptions))
        progress(f"simulate {len(setups)} dispatchers")
        found = compared(session, taken.work, setups, settings if judge else None, progress)
        of_recording = None
        if judge and isinstance(source, Trace):
            progress("audit the recording")
            of_recording = recorded_row(taken.work, source.manifest, settings)
        searched = None
        if limits:
            searched = smallest_without_stall(session, taken.work, setups[0], limits, _MOST, progress)
        for reason in taken.left_out:
            _log.warning(reason)
        simulated = zip(variants, setups, found, strict=True)
        dispatchers = tuple(
            VariantResult(variant.name, setup.version, setup.policy, *result) for variant, setup, result in simulated
        )
        work = len(taken.work)
        return Comparison(
            VariantComparison(
                name, version, seed, work, judge, dispatchers, taken.left_out, searched, recorded=of_recording
            )
        )
