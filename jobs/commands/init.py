"""`dispatch-audit init`: writes a small trace to start from, with an explanation."""

from pathlib import Path
from typing import Annotated

import typer

from dispatch_audit.jobs.commands.options import DebugOption, LogFormatOption
from dispatch_audit.jobs.stderr import NAME, errors_on_one_line
from dispatch_audit.pipeline.contract.profile import newest_profile, profile_for, refuse_version
from dispatch_audit.pipeline.trace.manifest import FILE_NAME
from dispatch_audit.pipeline.trace.starter import LOG_NAME, README_NAME, write_starter


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the trace goes: a new folder.")],
    version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Version of the broker; by default the newest known one.")
    ] = None,
    log_format: LogFormatOption = "text",
    debug: DebugOption = False,
) -> None:
    """Writes a small trace to start from by hand.

    It audits cleanly, and has an explanation beside it.
    """
    with errors_on_one_line(debug, log_format):
        release = version or newest_profile().to_version
        refuse_version(release)
        # Refuses one that is older than every profile.
        profile_for(release, {})
        write_starter(folder, release)
        typer.echo(f"Wrote   {folder}: {FILE_NAME}, {LOG_NAME} and {README_NAME}, which explains them")
        typer.echo(f"Next    {NAME} validate {folder}, and {NAME} audit {folder} --out tables")
