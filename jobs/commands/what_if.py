"""`dispatch-audit what-if`: the same traffic under several dispatchers, side by side."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args

import typer

from dispatch_audit.jobs.commands.options import (
    ConfigOption,
    DebugOption,
    EngineChoice,
    LogFormatOption,
    QuietOption,
    TrafficArgument,
    WidthOption,
)
from dispatch_audit.jobs.commands.preparation import needs_of, session_for, traces_in, warn_of_unknown_names
from dispatch_audit.jobs.progress import shown_stages
from dispatch_audit.jobs.reports import ReportFile, console, parse_reports, write_report
from dispatch_audit.jobs.stderr import errors_on_one_line
from dispatch_audit.pipeline.settings import load_settings

if TYPE_CHECKING:
    # It imports the simulation, which takes a second.
    from dispatch_audit.pipeline.simulate.comparison.comparison import VariantComparison

_MOST = 10_000_000
_Format = Literal["text", "markdown", "json"]
_FileFormat = Literal["html", "markdown", "json"]
_FILE_FORMATS: Final[tuple[_FileFormat, ...]] = get_args(_FileFormat)


def what_if(
    traffic: TrafficArgument,
    report_format: Annotated[_Format, typer.Option("--format", help="Format of the comparison on stdout.")] = "text",
    width: WidthOption = None,
    report: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORMAT=FILE",
            help="Also write the comparison to a file: html (a page with charts), markdown or json. May be repeated.",
            show_default=False,
        ),
    ] = None,
    judge: Annotated[
        bool, typer.Option("--audit/--no-audit", help="Audit what each dispatcher did: violations and blocked time.")
    ] = True,
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Find the smallest value of this setting without a stall. Repeated: of all together."
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Simulate the first N partitions only; they do not interact."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Decides what is random in the broker.")] = 0,
    engine: EngineChoice = "auto",
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Compares dispatchers on a trace or a described workload.

    It simulates each of them with the same traffic.
    """
    with errors_on_one_line(debug, log_format) as stderr:
        reports = parse_reports(report or (), _FILE_FORMATS)
        # Imported here, because it takes a second, which commands that read no trace need not wait.
        from dispatch_audit.pipeline.simulate.setting_names import refuse_limits, without_effect  # noqa: PLC0415
        from dispatch_audit.pipeline.simulate.traffic import broker_of, opened, traffic_of  # noqa: PLC0415
        from dispatch_audit.pipeline.simulate.variants import DEFAULT_VARIANTS  # noqa: PLC0415

        refuse_limits(search or ())
        source = opened(traffic)
        warn_of_unknown_names(traces_in(source), stderr)
        settings = load_settings(config)
        version, recorded = broker_of(source)
        setups = [variant.setup(version, recorded, seed) for variant in DEFAULT_VARIANTS]
        for sentence in without_effect((), setups[0]):
            stderr.warning(sentence)
        with shown_stages(not quiet and not debug and log_format == "text") as begin:
            begin("start the engine")
            needs = needs_of(source)
            spark = session_for(engine, needs, debug, meanwhile_import="dispatch_audit.pipeline.simulate.what_if")
            # Imported here, because `session_for` imports it while the engine starts.
            from dispatch_audit.pipeline.simulate.comparison.comparison import (  # noqa: PLC0415
                VariantComparison,
                VariantResult,
            )
            from dispatch_audit.pipeline.simulate.what_if import compared, smallest_without_stall  # noqa: PLC0415

            begin("read the traffic")
            taken = traffic_of(source, spark, partitions)
            begin(f"simulate {len(setups)} dispatchers")
            found = compared(spark, taken.work, setups, settings if judge else None, begin)
            searched = None
            if search:
                searched = smallest_without_stall(spark, taken.work, setups[0], search, _MOST, begin)
        for reason in taken.left_out:
            stderr.warning(reason)
        simulated = zip(DEFAULT_VARIANTS, setups, found, strict=True)
        dispatchers = tuple(
            VariantResult(variant.name, setup.version, setup.policy, *result) for variant, setup, result in simulated
        )
        comparison = VariantComparison(
            traffic, version, seed, len(taken.work), judge, dispatchers, taken.left_out, searched
        )
        if report_format == "text":
            # Imported here, because only this form needs it.
            from dispatch_audit.pipeline.simulate.comparison.text import print_comparison  # noqa: PLC0415

            print_comparison(comparison, console(width))
        else:
            typer.echo(_rendered(report_format, comparison))
        _write(reports, comparison)


def _write(reports: Sequence[ReportFile[_FileFormat]], comparison: "VariantComparison") -> None:
    for report in reports:
        text = _rendered(report.format, comparison)
        write_report(report.path, f"{text}\n".encode(), kept="the comparison is on stdout")


def _rendered(form: _FileFormat, comparison: "VariantComparison") -> str:
    if form == "json":
        return json.dumps(comparison.as_json(), indent=1)
    if form == "markdown":
        # Imported here, because only this form needs it.
        from dispatch_audit.pipeline.simulate.comparison.markdown import markdown  # noqa: PLC0415

        return markdown(comparison)
    # Imported here: the library of the charts takes 0.4 s.
    from dispatch_audit.pipeline.simulate.comparison.page import page_of  # noqa: PLC0415

    return page_of(comparison)
