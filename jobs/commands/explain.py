"""`dispatch-audit explain`: the events behind a finding, a hash or key, or a moment."""

from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import typer
from pyspark.sql import SparkSession

from dispatch_audit.jobs.commands.options import DEFAULT_TARGET, DebugOption, EngineChoice, LogFormatOption, QuietOption
from dispatch_audit.jobs.commands.preparation import EngineNeeds, session_for
from dispatch_audit.jobs.engines.load import Load
from dispatch_audit.jobs.progress import shown_stages
from dispatch_audit.jobs.reports import console
from dispatch_audit.jobs.stderr import errors_on_one_line
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.windows.window import moment_us


def explain(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The --out of the audit.")] = DEFAULT_TARGET,
    violation: Annotated[
        str | None, typer.Option(metavar="ID", help="The finding with this id (violations.finding_id).")
    ] = None,
    sticky_hash: Annotated[int | None, typer.Option("--hash", metavar="H", min=0, help="A sticky hash.")] = None,
    key: Annotated[
        str | None, typer.Option(metavar="K", help="A key; its hash is computed as the broker does.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="A moment (ISO 8601, UTC): with --hash or --key their story around it, alone a subscription's state.",
        ),
    ] = None,
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
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Shows the events behind a finding, hash, key or moment.

    It says who owned and held the hash at each.
    """
    with errors_on_one_line(debug, log_format) as stderr:
        _refuse_contradictions(violation, sticky_hash, key, at, export)
        at_us = None if at is None else moment_us(at)
        parsed = parse_target(target)
        with shown_stages(not quiet and not debug and log_format == "text") as begin:

            @cache
            def session() -> SparkSession:
                begin("start the engine")
                needs = EngineNeeds(Load.CHUNKS, delta=not parsed.local)
                return session_for(engine, needs, debug, meanwhile_import="dispatch_audit.pipeline.explain.answer")

            # Imported here, because a call with wrong arguments should not wait for them.
            from dispatch_audit.pipeline.tables.way import tables_of  # noqa: PLC0415

            tables = tables_of(None if parsed.local else session(), parsed)
            begin("read and replay the trace")
            # Imported here, because the compiler behind the replay takes half a second to import.
            from dispatch_audit.pipeline.explain.answer import Question, answer  # noqa: PLC0415
            from dispatch_audit.pipeline.explain.export import exported  # noqa: PLC0415
            from dispatch_audit.pipeline.explain.json_story import json_moment, json_story  # noqa: PLC0415
            from dispatch_audit.pipeline.explain.text import print_moment, print_story  # noqa: PLC0415

            question = Question(violation, sticky_hash, key, at_us, topic, subscription, run, trace, events)
            found = answer(question, tables, session)
            written = None
            if export and found.evidence and found.finding and found.story:
                begin("look for the shortest trace")
                written = exported(found.evidence, found.story, found.finding, export)
        if found.moment is not None:
            if report_format == "json":
                typer.echo(json_moment(found.moment, found.run_key))
            else:
                print_moment(found.moment, found.source, console())
        elif found.story is not None:
            if report_format == "json":
                typer.echo(json_story(found.story, found.finding, found.run_key))
            else:
                print_story(found.story, found.finding, found.source, console())
        if written is not None:
            stderr.note(written.sentence)
        raise typer.Exit(0)


def _refuse_contradictions(
    violation: str | None, sticky_hash: int | None, key: str | None, at: str | None, export: Path | None
) -> None:
    asked = [
        name
        for name, value in (("--violation", violation), ("--hash", sticky_hash), ("--key", key))
        if value is not None
    ]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} ask for different stories", "pass one of them")
    if not asked and at is None:
        raise UsageError(
            "explain needs a finding, a hash, a key or a moment", "pass --violation ID, --hash H, --key K or --at TIME"
        )
    if violation is not None and at is not None:
        raise UsageError("--violation has a moment of its own and takes no --at", "leave one of them out")
    if export is not None and violation is None:
        raise UsageError("--export writes the shortest trace of a finding", "pass --violation ID")
    if export is not None and export.exists() and (not export.is_dir() or any(export.iterdir())):
        raise UsageError(f"{export} exists", "name a new folder after --export")
