"""The program `dispatch-audit`: Ctrl-C ends it from here on, also while it imports the commands."""

from typing import NoReturn

from dispatch_audit.jobs.interruption import end_on_interrupt


def main() -> NoReturn:
    """Runs the command line with the arguments of this process, and exits."""
    end_on_interrupt()
    # Imported here, because it takes half a second, in which people press Ctrl-C too.
    from dispatch_audit.jobs.cli import main as run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()
