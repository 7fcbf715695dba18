"""Hands the options of stores to the file systems of Hadoop, through which Spark reads and writes tables behind a URI.

Spark takes settings of Hadoop as settings of a session, so that they hold on every kind of Spark, and for one session.
Source: Hadoop, "Hadoop-AWS module"; Spark, `SessionState.newHadoopConf`.
"""

from typing import Final

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.engine.name import on_sail
from dispatch_audit.pipeline.storage.options import HADOOP, Options

_OF_S3A: Final = {
    "aws_endpoint_url": "fs.s3a.endpoint",
    "aws_access_key_id": "fs.s3a.access.key",
    "aws_secret_access_key": "fs.s3a.secret.key",
    "aws_session_token": "fs.s3a.session.token",
    "aws_region": "fs.s3a.endpoint.region",
    "aws_default_region": "fs.s3a.endpoint.region",
}
_PATH_STYLE: Final = "fs.s3a.path.style.access"


def hadoop_settings(options: Options) -> dict[str, str]:
    """Returns the settings of Hadoop for options: those of S3 by its names, and those that are settings of Hadoop."""
    known = {_OF_S3A[name.lower()]: value for name, value in options if name.lower() in _OF_S3A}
    # As delta-rs asks: the servers that need an endpoint have no name for each bucket.
    style = {_PATH_STYLE: "true"} if "fs.s3a.endpoint" in known else {}
    return {**style, **known, **{name: value for name, value in options if name.startswith(HADOOP)}}


def set_in(spark: SparkSession, options: Options) -> None:
    """Sets the settings of Hadoop in a session of Spark."""
    if not options:
        return
    if on_sail(spark):
        return  # the audit itself goes to stores there
    for name, value in hadoop_settings(options).items():
        spark.conf.set(name, value)
