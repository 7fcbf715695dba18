"""The command that shows the events behind a finding, for whoever reads a report."""

from shlex import quote


def explain_command(target: str, finding_id: str) -> str:
    """Returns the command for a shell: `dispatch-audit explain TARGET --violation ID`.

    Args:
        target: where the tables are, as it was given to the audit.
        finding_id: the column of `violations`.
    """
    return f"dispatch-audit explain {quote(target)} --violation {quote(finding_id)}"
