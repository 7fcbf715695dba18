"""The audit as a job: `spark-submit jobs/nightly_audit.py -- TRACE... --out TARGET`.

What stands behind `--` are the arguments of `dispatch-audit audit`, or a command of it with its own (`validate
TRACE...`), and the exit code is its. The package must be
installed where the driver runs, and Spark needs Delta Lake: a cluster has it, a bare Spark takes it with
`--packages io.delta:delta-spark_4.2_2.13:4.4.0`. spark-submit writes what this script says on stderr to its own stdout.
"""

import sys

from jobs.cli import main

# A trace in a folder of such a name is meant by writing ./audit.
_COMMANDS = ("audit", "validate")


def audit_arguments() -> list[str]:
    """The arguments of this process as those of the command line."""
    given = sys.argv[1:]
    behind = given[1:] if given[:1] == ["--"] else given
    return behind if behind[:1] and behind[0] in _COMMANDS else ["audit", *behind]


if __name__ == "__main__":
    main(audit_arguments())
