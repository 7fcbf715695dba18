"""The commands that show the events behind a finding or a wait, for whoever reads a report."""

from shlex import quote


def explain_command(target: str, finding_id: str) -> str:
    """Returns the command for a shell: `dispatch-audit explain TARGET --violation ID`.

    Args:
        target: where the tables are, as it was given to the audit.
        finding_id: the column of `violations`.
    """
    return f"dispatch-audit explain {quote(target)} --violation {quote(finding_id)}"


def explain_consumer_command(target: str, consumer: str, topic: str | None, subscription: str | None) -> str:
    """Returns the command that shows what a consumer was sent and did.

    Args:
        target: where the tables are, as it was given to the audit.
        consumer: its name, or its number.
        topic: None: the run has one subscription.
        subscription: the same.
    """
    of = "" if topic is None else f" --topic {quote(topic)}"
    of += "" if subscription is None else f" --subscription {quote(subscription)}"
    return f"dispatch-audit explain {quote(target)} --consumer {quote(consumer)}{of}"
