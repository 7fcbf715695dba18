"""`dispatch-audit report`: writes the page of a run."""

from pathlib import Path
from typing import Annotated

import typer

from dispatch_audit.jobs.commands.options import DEFAULT_TARGET, DebugOption, EngineChoice
from dispatch_audit.jobs.commands.preparation import EngineNeeds, session_for
from dispatch_audit.jobs.engines.load import Load
from dispatch_audit.jobs.reports import check_writable
from dispatch_audit.jobs.stderr import errors_on_one_line
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.tables.target import parse_target


def report(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Where an audit wrote its tables.")] = DEFAULT_TARGET,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page, one HTML file.")] = Path("dispatch-audit.html"),
    run: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The run; by default the one that ended last.", show_default=False),
    ] = None,
    engine: EngineChoice = "auto",
    debug: DebugOption = False,
) -> None:
    """Writes the page of a run, which needs no network.

    It has the findings with their evidence, who blocked whom, and charts.
    """
    with errors_on_one_line(debug, "text"):
        check_writable(out)
        parsed = parse_target(target)
        # Imported here: a call with wrong arguments should not wait for the library of the charts.
        from dispatch_audit.pipeline.report.page.build import page_of_run  # noqa: PLC0415
        from dispatch_audit.pipeline.report.runs import chosen_run  # noqa: PLC0415
        from dispatch_audit.pipeline.tables.way import tables_of  # noqa: PLC0415

        spark = None
        if not parsed.local:
            needs = EngineNeeds(Load.CHUNKS, delta=True)
            spark = session_for(engine, needs, debug, meanwhile_import="dispatch_audit.pipeline.report.query")
        page = page_of_run(spark, target, chosen_run(tables_of(spark, parsed), run))
        try:
            out.write_bytes(page.encode())
        except OSError as error:
            raise UsageError(f"cannot write {out}: {error.strerror}", "choose another --out") from None
        typer.echo(f"wrote {out}", err=True)
        raise typer.Exit
