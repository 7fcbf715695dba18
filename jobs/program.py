"""The program `dispatch-audit`: Ctrl-C ends it from here on, also while it imports the commands."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from dispatch_audit.jobs.engines.releases import pyspark_version, require_supported
from dispatch_audit.jobs.interruption import end_on_interrupt
from dispatch_audit.pipeline.errors import UsageError


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line, and exits.

    Args:
        arguments: without the name of the program; None: those of the process.
    """
    end_on_interrupt()
    if "--debug" not in (sys.argv if arguments is None else arguments):
        # delta-rs logs each place in which it finds no credentials; the error says it in one line.
        os.environ.setdefault("RUST_LOG", "off")
    # The commands import parts of PySpark that an old one lacks.
    try:
        require_supported(pyspark_version())
    except UsageError as error:
        sys.stderr.write(f"dispatch-audit: error: {error}\n")
        sys.exit(error.exit_code)
    # Imported here, because it takes half a second, in which people press Ctrl-C too.
    from dispatch_audit.jobs.cli import main as run  # noqa: PLC0415

    run(arguments)


if __name__ == "__main__":
    main()
