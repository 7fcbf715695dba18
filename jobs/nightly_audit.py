"""The audit as a job: `spark-submit jobs/nightly_audit.py -- TRACE... --out TARGET`.

What stands behind `--` are the arguments of `dispatch-audit audit`, or a command of it with its own (`validate
TRACE...`), and the exit code is its. An option with nothing behind its `=` counts as not given: the parameters of a
scheduler's job are always there, and may be empty. The package must be installed where the driver runs, and Spark needs
Delta Lake: a cluster has it, a bare Spark takes it with `--packages io.delta:delta-spark_4.2_2.13:4.4.0`. spark-submit
writes what this script says on stderr to its own stdout.
"""

import re
import sys

from jobs.cli import main

# A trace in a folder of such a name is meant by writing ./audit.
_COMMANDS = ("audit", "validate")
_OPTION_WITHOUT_VALUE = re.compile(r"--[a-z-]+=")


def audit_arguments() -> list[str]:
    """The arguments of this process as those of the command line."""
    given = sys.argv[1:]
    behind = given[1:] if given[:1] == ["--"] else given
    meant = [argument for argument in behind if not _OPTION_WITHOUT_VALUE.fullmatch(argument)]
    return meant if meant[:1] and meant[0] in _COMMANDS else ["audit", *meant]


def run() -> None:
    """Runs the audit with the arguments of this process, and exits."""
    main(audit_arguments())


if __name__ == "__main__":
    run()
