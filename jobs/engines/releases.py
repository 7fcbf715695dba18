"""Which releases of Spark the audit runs on, what each of them needs, and what does not fit together.

It is looked at before a session starts, because Spark would end with a stack trace in the middle of an audit: a
package cannot ask for it, since pip would then replace the Spark of a cluster by another one.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from dispatch_audit.jobs.engines.extras import how_to_install
from dispatch_audit.pipeline.errors import UsageError


@dataclass(frozen=True)
class Release:
    """What a release of Spark needs.

    Attributes:
        delta: the name and the version of its package of Delta Lake, without the version of Scala.
        scala: the version of Scala that PySpark from an index has.
        java_min: the first major version of Java that it runs on.
    """

    delta: tuple[str, str]
    scala: str
    java_min: int


# Source: https://docs.delta.io/releases/, and "Downloading" in the documentation of each Spark.
RELEASES: Final = {
    "3.5": Release(("delta-spark", "3.3.2"), "2.12", 8),
    "4.0": Release(("delta-spark", "4.0.0"), "2.13", 17),
    "4.1": Release(("delta-spark_4.1", "4.4.0"), "2.13", 17),
    "4.2": Release(("delta-spark_4.2", "4.4.0"), "2.13", 17),
}
"""By the first two numbers of their version."""

_IN_WORDS: Final = f"{', '.join(list(RELEASES)[:-1])} and {list(RELEASES)[-1]}"
_DELTA_JAR: Final = re.compile(r"delta-(?:spark|core)_(?:(\d+\.\d+)_)?(2\.1\d)-(\d+\.\d+)[\w.]*\.jar$")
# Without a version of Spark in their names: the version of Delta Lake says which Spark they are for.
_FIRST_WITH_SPARK_IN_NAME: Final = (4, 1)


def pyspark_version() -> str:
    """Returns the version of the installed PySpark.

    Raises:
        UsageError: there is none.
    """
    if find_spec("pyspark") is None:
        raise UsageError(
            "PySpark is not installed, which the audit leaves to the environment",
            f"{how_to_install('embedded')}, or take [spark] there, or run it with spark-submit",
        )
    import pyspark  # noqa: PLC0415 - it may be absent

    return pyspark.__version__


def require_supported(spark: str) -> None:
    """Checks that the audit runs on a release of Spark; one that is later than all that are known may do.

    Args:
        spark: its version.

    Raises:
        UsageError: it is too old, or needs a part of Python that is missing.
    """
    if _numbers(spark) < _numbers(next(iter(RELEASES))):
        raise UsageError(
            f"Spark {spark} is too old: the audit runs on Spark {_IN_WORDS}",
            "run it in an environment with one of them",
        )
    # The PySpark of Databricks is its own, which runs on the Python of its runtime.
    own = "DATABRICKS_RUNTIME_VERSION" not in os.environ
    if own and _minor(spark) == "3.5" and find_spec("distutils") is None:
        raise UsageError(
            f"PySpark {spark} needs the module distutils, which Python has no longer since 3.12",
            "pip install setuptools, or use Python 3.11",
        )


def release_here() -> Release:
    """Returns what the installed PySpark needs.

    Raises:
        UsageError: Delta Lake has no jars for it.
    """
    spark = pyspark_version()
    if (found := RELEASES.get(_minor(spark))) is None:
        raise UsageError(
            f"it is not known which Delta Lake fits Spark {spark}",
            f"use Spark {_IN_WORDS}, or a folder for the tables",
        )
    return found


def delta_package() -> str:
    """Returns the Maven coordinates of the Delta Lake that fits the installed Spark and its Scala.

    Of the same Delta Lake it is the patch release of the package delta-spark, if that is installed.

    Raises:
        UsageError: Delta Lake has no jars for it.
    """
    name, known = release_here().delta
    try:
        installed = version("delta-spark")
    except PackageNotFoundError:
        installed = known
    return f"io.delta:{name}_{scala_version()}:{installed if _minor(installed) == _minor(known) else known}"


def connect_package() -> str | None:
    """Returns the Maven coordinates of the server of Spark Connect; None: Spark has it, as from 4.0 on."""
    jars = spark_jars()
    if jars is not None and any(jars.glob("spark-connect_*.jar")):
        return None
    return f"org.apache.spark:spark-connect_{scala_version()}:{pyspark_version()}"


def java_min() -> int:
    """Returns the first major version of Java that the installed Spark runs on."""
    newest = list(RELEASES.values())[-1]
    return RELEASES.get(_minor(pyspark_version()), newest).java_min


def spark_jars() -> Path | None:
    """Returns the folder with the jars of Spark; None: there is only a client."""
    home = os.environ.get("SPARK_HOME")
    spec = find_spec("pyspark")
    folders = [Path(home)] if home else [Path(place) for place in (spec and spec.submodule_search_locations) or ()]
    return next((folder / "jars" for folder in folders if (folder / "jars").is_dir()), None)


@cache
def scala_version() -> str:
    """Returns the version of Scala that the installed Spark was built with."""
    jars = spark_jars()
    found = next((jar.name for jar in jars.glob("spark-core_*.jar")), "") if jars else ""
    of_jar = re.match(r"spark-core_(\d+\.\d+)-", found)
    return of_jar[1] if of_jar else release_here().scala


def require_fitting_delta(jars: Iterable[str]) -> None:
    """Checks that the Delta Lake among jars is one for the installed Spark and its Scala.

    Args:
        jars: paths or URLs; those of other libraries are not looked at.

    Raises:
        UsageError: it is for another Spark or Scala.
    """
    spark = pyspark_version()
    for jar in jars:
        found = _DELTA_JAR.search(jar)
        if found is None:
            continue
        for_spark, scala, delta = found.groups()
        fits = for_spark == _minor(spark) if for_spark else _fits(delta, _minor(spark))
        if not fits or scala != scala_version():
            raise UsageError(
                f"{jar.rpartition('/')[2]} does not fit Spark {spark} with Scala {scala_version()}",
                f"take {delta_package()}",
            )


def _fits(delta: str, spark: str) -> bool:
    """Whether a Delta Lake whose jar names no Spark is for a release; later ones than known may be."""
    number = _numbers(delta)
    if spark == "3.5":
        return (3, 0) <= number < (4, 0)
    return number == (4, 0) if spark == "4.0" else number >= _FIRST_WITH_SPARK_IN_NAME


def _minor(number: str) -> str:
    return ".".join(number.split(".")[:2])


def _numbers(number: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", _minor(number)))
