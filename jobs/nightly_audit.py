"""The audit as a job: `spark-submit jobs/nightly_audit.py -- TRACE... --out TARGET`.

The arguments after `--` are those of `dispatch-audit audit`, or another command with its arguments (`validate
TRACE...`, `convert TRACE... --to TARGET`); the exit code is that of the command. An option with an empty value
(`--from=`) is ignored, because a scheduler passes every parameter of a job, also empty ones. The package must be
installed on the driver, and Spark needs Delta Lake: docs/WHERE_TO_RUN.md has the `--packages` of each release, for
clusters that lack it. spark-submit writes the stderr of this script to its own stdout.
"""

import re
import sys

from dispatch_audit.jobs.program import main

# Write ./audit for a trace in a folder of this name.
_COMMANDS = ("audit", "validate", "convert")
_OPTION_WITHOUT_VALUE = re.compile(r"--[a-z-]+=")


def audit_arguments() -> list[str]:
    """Returns the arguments of this process as arguments of the command line."""
    given = sys.argv[1:]
    after_dashes = given[1:] if given[:1] == ["--"] else given
    arguments = [argument for argument in after_dashes if not _OPTION_WITHOUT_VALUE.fullmatch(argument)]
    return arguments if arguments[:1] and arguments[0] in _COMMANDS else ["audit", *arguments]


def run() -> None:
    """Runs the command line with the arguments of this process, and exits."""
    main(audit_arguments())


if __name__ == "__main__":
    run()
