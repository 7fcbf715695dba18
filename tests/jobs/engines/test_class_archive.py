"""The archive of the classes that Spark loads: which options a JVM gets, and that Java writes what they expect."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from dispatch_audit.jobs.engines.class_archive import class_archive_options
from dispatch_audit.jobs.engines.java import has_java

JAVA = 'openjdk version "17.0.15"'
WHOLE = (0xF00BABA8).to_bytes(4, "little") + b"\0" * 12


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def archive_of(options: str) -> Path:
    return Path(options.split(maxsplit=1)[0].partition("=")[2])


def test_the_first_session_writes_the_archive_and_the_next_one_uses_it() -> None:
    first = class_archive_options(JAVA)
    archive_of(first).write_bytes(WHOLE)
    assert first.startswith("-XX:ArchiveClassesAtExit=")
    assert class_archive_options(JAVA).startswith(f"-XX:SharedArchiveFile={archive_of(first)} ")


def test_another_java_has_an_archive_of_its_own() -> None:
    archive_of(class_archive_options(JAVA)).write_bytes(WHOLE)
    assert class_archive_options('openjdk version "21.0.2"').startswith("-XX:ArchiveClassesAtExit=")


def test_an_archive_that_is_being_written_is_left_alone() -> None:
    archive_of(class_archive_options(JAVA)).write_bytes(b"\0" * 16)
    assert class_archive_options(JAVA) == ""


def test_an_archive_whose_writer_was_killed_is_written_again() -> None:
    archive = archive_of(class_archive_options(JAVA))
    archive.write_bytes(b"\0" * 16)
    an_hour_ago = time.time() - 3600
    os.utime(archive, (an_hour_ago, an_hour_ago))
    assert class_archive_options(JAVA).startswith("-XX:ArchiveClassesAtExit=")


def test_an_archive_that_nobody_used_for_a_month_is_dropped() -> None:
    unused, used = (archive_of(class_archive_options(java)) for java in ("unused", "used"))
    for archive, days in ((unused, 31), (used, 29)):
        archive.write_bytes(WHOLE)
        os.utime(archive, (time.time() - days * 86_400,) * 2)
    class_archive_options(JAVA)
    assert (unused.exists(), used.exists()) == (False, True)


def test_a_folder_that_the_options_cannot_name_gets_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "with a blank"))
    assert class_archive_options(JAVA) == ""


@pytest.mark.skipif(not has_java(), reason="there is no Java 17 or later for Apache Spark")
def test_java_writes_and_takes_the_archive() -> None:
    java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ['PATH']}")
    assert java is not None
    written = subprocess.run([java, *class_archive_options(JAVA).split(), "-version"], capture_output=True, check=True)
    options = class_archive_options(JAVA)
    assert options.startswith("-XX:SharedArchiveFile=")
    # Fails instead of going on without the archive.
    taken = subprocess.run([java, *options.split(), "-Xshare:on", "-version"], capture_output=True, check=True)
    assert taken.stdout == written.stdout == b""
