"""`dispatch-audit explain`: the events behind a finding, a hash or key, an entry, a consumer, or a moment."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dispatch_audit.jobs.api.arguments import DEFAULT_TARGET
from dispatch_audit.jobs.api.explain import explain as run_explanation
from dispatch_audit.jobs.commands.options import DebugOption, EngineChoice, LogFormatOption, QuietOption, StorageOption
from dispatch_audit.jobs.progress import shown_stages
from dispatch_audit.jobs.reports import console
from dispatch_audit.jobs.stderr import errors_on_one_line


def explain(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The --out of the audit.")] = DEFAULT_TARGET,
    violation: Annotated[
        str | None, typer.Option(metavar="ID", help="The finding with this id (violations.finding_id).")
    ] = None,
    sticky_hash: Annotated[int | None, typer.Option("--hash", metavar="H", min=0, help="A sticky hash.")] = None,
    key: Annotated[
        str | None, typer.Option(metavar="K", help="A key; its hash is computed as the broker does.")
    ] = None,
    entry: Annotated[
        str | None, typer.Option(metavar="LEDGER:ENTRY", help="An entry: who was sent it, and when.")
    ] = None,
    consumer: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="What a consumer of this name was sent, acknowledged and gave back; also its number."
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="A moment (ISO 8601, UTC): alone a subscription's state, else the story around it.",
        ),
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Where the span of a story begins (ISO 8601, UTC).")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Where it ends, not in it.")] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="The topic, in full or its last part.", show_default=False)
    ] = None,
    subscription: Annotated[
        str | None, typer.Option(metavar="NAME", help="The subscription.", show_default=False)
    ] = None,
    run: Annotated[str | None, typer.Option(metavar="KEY", help="The run; by default the newest one.")] = None,
    trace: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where the trace is now; by default where it was audited.")
    ] = None,
    events: Annotated[int, typer.Option(metavar="N", min=1, help="Most events of a story.")] = 100,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="With --violation: also write the shortest trace that still gives the finding to this new folder.",
            show_default=False,
        ),
    ] = None,
    report_format: Annotated[Literal["text", "json"], typer.Option("--format", help="Format of the story.")] = "text",
    engine: EngineChoice = "auto",
    storage_option: StorageOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Shows the events behind a finding, key, entry or consumer.

    It says who owned and held the hash at each.
    """
    with errors_on_one_line(debug, log_format, storage=storage_option) as stderr:
        with shown_stages(not quiet and not debug and log_format == "text") as stage:
            found = run_explanation(
                target,
                violation=violation,
                sticky_hash=sticky_hash,
                key=key,
                entry=entry,
                consumer=consumer,
                at=at,
                begin=begin,
                end=end,
                topic=topic,
                subscription=subscription,
                run=run,
                trace=trace,
                events=events,
                export=export,
                engine=engine,
                progress=stage,
                debug=debug,
            )
        if report_format == "json":
            typer.echo(found.report("json"))
        else:
            found.print_to(console())
        if found.export_note is not None:
            stderr.note(found.export_note)
        raise typer.Exit(0)
