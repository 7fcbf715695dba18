"""Puts a converted trace into an object store: it is made on this machine, and then uploaded."""

from pathlib import Path
from typing import Final

from dispatch_audit.pipeline.convert.request import EVENTS, QUARANTINE
from dispatch_audit.pipeline.storage.store_path import StorePath
from dispatch_audit.pipeline.tables.threads import at_one_time
from dispatch_audit.pipeline.trace.manifest import FILE_NAME

_LOG: Final = "_delta_log"


def put_in_store(made: Path, target: StorePath) -> None:
    """Uploads what was made; an earlier conversion at the target is removed.

    A table is there once its log is, so the log of the old one goes first, and that of the new one comes last.
    """
    for name in (EVENTS, QUARANTINE):
        (target / name / _LOG).remove_all()
        (target / name).remove_all()
    (target / FILE_NAME).remove_all()
    files = sorted(file for file in made.rglob("*") if file.is_file())
    for are_logs in (False, True):
        at_one_time(lambda file: _upload(file, made, target), [file for file in files if _is_log(file) is are_logs])


def _is_log(file: Path) -> bool:
    return _LOG in file.parts


def _upload(file: Path, made: Path, target: StorePath) -> None:
    (target / file.relative_to(made).as_posix()).write_bytes(file.read_bytes())
