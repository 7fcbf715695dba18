"""What native code prints to stderr while a table is written."""

import os
from contextlib import suppress

import pytest

from dispatch_audit.pipeline.tables.delta_rs.panics import panics_kept_apart


def _printed(capfd: pytest.CaptureFixture[str], *, fails: bool) -> str:
    """What is on stderr after two writes at one time, of which the inner one may fail."""
    with panics_kept_apart(), suppress(OSError), panics_kept_apart():
        os.write(2, b"panicked\n")
        if fails:
            raise OSError
    os.write(2, b"later\n")
    return capfd.readouterr().err


def test_a_failed_write_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert _printed(capfd, fails=True) == "later\n"


def test_what_others_print_meanwhile_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    assert _printed(capfd, fails=False) == "panicked\nlater\n"
