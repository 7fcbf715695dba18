"""`dispatch-audit what-if`: the same traffic under several dispatchers, side by side."""

from typing import Annotated, Final, Literal, get_args

import typer

from dispatch_audit.jobs.api.what_if import what_if as run_comparison
from dispatch_audit.jobs.commands.options import (
    ConfigOption,
    DebugOption,
    EngineChoice,
    LogFormatOption,
    QuietOption,
    StorageOption,
    SubscriptionsOption,
    TopicsOption,
    TrafficArgument,
    WidthOption,
)
from dispatch_audit.jobs.progress import shown_stages
from dispatch_audit.jobs.reports import console, parse_reports, write_report
from dispatch_audit.jobs.stderr import errors_on_one_line

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
    topic: TopicsOption = None,
    subscription: SubscriptionsOption = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Decides what is random in the broker.")] = 0,
    engine: EngineChoice = "auto",
    storage_option: StorageOption = None,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Compares dispatchers on a trace or a described workload.

    It simulates each of them with the same traffic.
    """
    with errors_on_one_line(debug, log_format, storage=storage_option):
        reports = parse_reports(report or (), _FILE_FORMATS)
        with shown_stages(not quiet and not debug and log_format == "text") as begin:
            result = run_comparison(
                traffic,
                judge=judge,
                search=search or (),
                partitions=partitions,
                topics=topic or (),
                subscriptions=subscription or (),
                seed=seed,
                config=config,
                engine=engine,
                progress=begin,
                debug=debug,
            )
        if report_format == "text":
            result.print_to(console(width))
        else:
            typer.echo(result.report(report_format))
        for one in reports:
            write_report(one.path, f"{result.report(one.format)}\n".encode(), kept="the comparison is on stdout")
