"""Arguments and options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

from dispatch_audit.jobs.engines.choice import EngineOption
from dispatch_audit.jobs.stderr import LogFormat

TracesArgument = Annotated[
    list[str],
    typer.Argument(metavar="TRACE", help="Recorded traces: folders, logs or tables.", show_default=False),
]
TrafficArgument = Annotated[
    str,
    typer.Argument(
        metavar="TRACE|WORKLOAD.toml",
        help="A recorded trace (a folder, a log or a table), or a workload in TOML (conf/workloads has examples).",
        show_default=False,
    ),
]
TopicsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="NAME", help="This topic only; * and ? match others. May be repeated.", show_default=False
    ),
]
SubscriptionsOption = Annotated[
    list[str] | None,
    typer.Option("--subscription", metavar="NAME", help="This subscription only, the same way.", show_default=False),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Broker profile (conf/profiles). By default the version in the trace selects it."
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="TOML file with settings to change; conf/audit.toml has all.", show_default=False
    ),
]
EngineChoice = Annotated[
    EngineOption,
    typer.Option(
        help="auto: what runs already (spark-submit, Databricks, SPARK_REMOTE), else for files of this machine "
        "embedded if it is installed, else Apache Spark if there is a Java; spark: Apache Spark; embedded: an engine "
        "for one machine, without Java."
    ),
]
LogFormatOption = Annotated[
    LogFormat,
    typer.Option(help="Form of stderr: progress and lines of text, or one JSON object for each stage and error."),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "--no-progress", help="Show no progress.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Name the rules that found nothing, and the tables, in a text.")
]
WidthOption = Annotated[
    int | None,
    typer.Option(
        metavar="COLUMNS",
        min=40,
        help="Wrap a text to this width; by default to that of the terminal, and not at all in pipes and files.",
        show_default=False,
    ),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="NAME=VALUE",
        help="A credential or setting of the object store behind s3://, gs:// or abfss://, such as AWS_ENDPOINT_URL; "
        "the environment may have them too. Never shown or stored. May be repeated.",
        show_default=False,
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show tracebacks and the output of Spark.")]
