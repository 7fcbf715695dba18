"""The audit as a job: `spark-submit jobs/nightly_audit.py -- TRACE... --out TARGET`.

What stands behind `--` are the arguments of `dispatch-audit audit`, and the exit code is its. The package must be
installed where the driver runs, and Spark needs Delta Lake: a cluster has it, a bare Spark takes it with
`--packages io.delta:delta-spark_4.2_2.13:4.4.0`.
"""

import sys

from jobs.cli import main


def audit_arguments() -> list[str]:
    """The arguments of this process as those of the command line."""
    given = sys.argv[1:]
    return ["audit", *(given[1:] if given[:1] == ["--"] else given)]


if __name__ == "__main__":
    main(audit_arguments())
