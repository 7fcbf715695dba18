"""Keeps the classes that Spark loads in an archive, from which the JVM of the next session takes them.

Loading and checking thousands of classes is half of the CPU time of a short audit (docs/TRIED.md). A session that finds
no archive lets its JVM write one when it ends, which nobody waits for. The JVM checks the archive against its own build
and class path, and starts without it if they do not fit (JEP 350, "Dynamic CDS Archives").
"""

import hashlib
import os
import time
from pathlib import Path

import pyspark

from dispatch_audit.jobs.engines.java import major_version
from dispatch_audit.pipeline.cache_folder import cache_folder

# The JVM writes the head of the file last, so that a file which begins with this number is whole.
_MAGIC = (0xF00BABA8).to_bytes(4, "little")
# Writing takes seconds; a file that is not whole by then belongs to a JVM that was killed.
_WRITTEN_WITHIN_S = 600.0
_UNUSED_S = 30 * 24 * 3600.0
_FIRST_WITH_ARCHIVES = 13
# The JVM would list every class that it cannot keep.
_NO_WARNINGS = "-Xlog:cds=off"


def class_archive_options(java_version: str) -> str:
    """Returns the options with which the JVM of a session uses the archive, or writes it when it ends.

    Args:
        java_version: what Java says of its version.

    Returns:
        Options with a blank between them; none while another JVM writes the archive.
    """
    version = major_version(java_version)
    if version is not None and version < _FIRST_WITH_ARCHIVES:
        return ""
    folder = cache_folder("classes")
    archive = folder / f"{_key(java_version)}.jsa"
    if " " in str(archive):
        return ""  # Spark divides the options at blanks
    try:
        with archive.open("rb") as file:
            is_whole = file.read(len(_MAGIC)) == _MAGIC
        written_s = archive.stat().st_mtime
        if is_whole:
            os.utime(archive)
            return f"-XX:SharedArchiveFile={archive} {_NO_WARNINGS}"
        if time.time() - written_s < _WRITTEN_WITHIN_S:
            return ""
    except FileNotFoundError:
        _drop_unused(folder)
    return f"-XX:ArchiveClassesAtExit={archive} {_NO_WARNINGS}"


def _key(java_version: str) -> str:
    """A digest of the sources of the classes: Java, and the jars of Spark on this disk."""
    jars = sorted(Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent, "jars").glob("*.jar"))
    found = [f"{jar} {stat.st_size} {stat.st_mtime_ns}" for jar in jars for stat in [jar.stat()]]
    return hashlib.sha256("\n".join([java_version, *found]).encode()).hexdigest()[:16]


def _drop_unused(folder: Path) -> None:
    """Drops archives of a Java or a Spark that is no longer used."""
    for archive in folder.glob("*.jsa"):
        if time.time() - archive.stat().st_mtime > _UNUSED_S:
            archive.unlink(missing_ok=True)
