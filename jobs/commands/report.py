"""`dispatch-audit report`: writes the page of a run."""

from pathlib import Path
from typing import Annotated

import typer

from dispatch_audit.jobs.api.arguments import DEFAULT_TARGET
from dispatch_audit.jobs.api.audit import read_audit
from dispatch_audit.jobs.commands.options import DebugOption, EngineChoice, StorageOption
from dispatch_audit.jobs.reports import check_writable
from dispatch_audit.jobs.stderr import errors_on_one_line
from dispatch_audit.pipeline.errors import UsageError


def report(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Where an audit wrote its tables.")] = DEFAULT_TARGET,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page, one HTML file.")] = Path("dispatch-audit.html"),
    run: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The run; by default the one that ended last.", show_default=False),
    ] = None,
    engine: EngineChoice = "auto",
    storage_option: StorageOption = None,
    debug: DebugOption = False,
) -> None:
    """Writes the page of a run, which needs no network.

    It has the findings with their evidence, who blocked whom, and charts.
    """
    with errors_on_one_line(debug, "text", storage=storage_option):
        check_writable(out)
        page = read_audit(target, run=run, engine=engine, debug=debug).report("html")
        try:
            out.write_bytes(page.encode())
        except OSError as error:
            raise UsageError(f"cannot write {out}: {error.strerror}", "choose another --out") from None
        typer.echo(f"wrote {out}", err=True)
        raise typer.Exit
