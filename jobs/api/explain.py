"""Returns the events behind a finding, a hash or key, or a moment."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import SparkSession
from rich.console import Console

from dispatch_audit.jobs.api.arguments import DEFAULT_TARGET, Moment, PathLike, Progress, moment_text, silent, texts
from dispatch_audit.jobs.api.preparation import EngineNeeds, session_for
from dispatch_audit.jobs.engines.choice import EngineOption
from dispatch_audit.jobs.engines.load import Load
from dispatch_audit.jobs.one_error import one_error
from dispatch_audit.jobs.reports import as_text
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.storage.options import options_given
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.windows.window import moment_us

if TYPE_CHECKING:
    from dispatch_audit.pipeline.explain.answer import Explanation


@dataclass(frozen=True)
class Explained:
    """The events behind a finding, a hash or key, or the state of a subscription at a moment.

    Attributes:
        explanation: the story with its evidence, or the state.
        export_note: the trace that was written, in a sentence; None: none was.
    """

    explanation: "Explanation"
    export_note: str | None = None

    @property
    def finding(self) -> dict[str, Any] | None:
        """The row of `violations` that is explained; None: it was asked for no finding."""
        return self.explanation.finding

    def print_to(self, console: Console) -> None:
        """Writes the text to a console."""
        # Imported here, because a call with wrong arguments should not wait for it.
        from dispatch_audit.pipeline.explain.text import print_moment, print_story  # noqa: PLC0415

        found = self.explanation
        if found.moment is not None:
            print_moment(found.moment, found.source, console)
        elif found.story is not None:
            print_story(found.story, found.finding, found.source, console)

    def report(self, form: Literal["text", "json"] = "text") -> str:
        """Returns the events as text, or as one JSON object (docs/EXPLAIN.md)."""
        if form == "text":
            return as_text(self.print_to)
        # Imported here, because a call with wrong arguments should not wait for it.
        from dispatch_audit.pipeline.explain.json_story import json_moment, json_story  # noqa: PLC0415

        found = self.explanation
        if found.moment is not None:
            return json_moment(found.moment, found.run_key)
        assert found.story is not None, "an answer is a moment or a story"
        return json_story(found.story, found.finding, found.run_key)


def explain(
    target: PathLike = DEFAULT_TARGET,
    *,
    violation: str | None = None,
    sticky_hash: int | None = None,
    key: str | None = None,
    at: Moment | None = None,
    topic: str | None = None,
    subscription: str | None = None,
    run: str | None = None,
    trace: PathLike | None = None,
    events: int = 100,
    export: PathLike | None = None,
    spark: SparkSession | None = None,
    engine: EngineOption = "auto",
    storage_options: Mapping[str, str] | None = None,
    progress: Progress = silent,
    debug: bool = False,
) -> Explained:
    """Returns the events behind a finding, a hash, a key or a moment.

    Args:
        target: the `out` of the audit.
        violation: the id of a finding (`Finding.finding_id`).
        sticky_hash: a sticky hash.
        key: a key, whose hash is computed as the broker does.
        at: a moment: with a hash or key their story around it, alone the state of a subscription.
        topic: the topic, in full or its last part; None: there is one.
        subscription: the subscription; None: there is one.
        run: the key of the run; None: the newest.
        trace: where the trace is now; None: where it was audited.
        events: most events of a story.
        export: with `violation`, a new folder for the shortest trace that still gives the finding.
        spark: a session, for tables or traces that are no files of this machine.
        engine: as `--engine`, where a session is needed and none is given.
        storage_options: credentials and settings of object stores, as `--storage-option`; None: from the environment.
        progress: called with the name of each stage as it begins.
        debug: whether to show the output of an engine that is started.

    Raises:
        UsageError: the question makes no sense, or the tables have no such run, finding or subscription.
        TraceError: the trace cannot be read.
        InternalError: a fault of the audit.
    """
    with one_error(), options_given(storage_options):
        new = None if export is None else Path(export)
        _refuse_contradictions(violation, sticky_hash, key, at, new)
        at_text = moment_text(at)
        at_us = None if at_text is None else moment_us(at_text)
        parsed = parse_target(texts(target)[0])

        @cache
        def session() -> SparkSession:
            progress("start the engine")
            needs = EngineNeeds(Load.CHUNKS, delta=not parsed.local, embeddable=parsed.place is not None)
            module = "dispatch_audit.pipeline.explain.answer"
            return session_for(engine, needs, debug, meanwhile_import=module, given=spark)

        # Imported here, because a call with wrong arguments should not wait for it.
        from dispatch_audit.pipeline.tables.way import tables_of  # noqa: PLC0415

        # A session that is given, or asked for, has its own way to a store.
        alone = parsed.local or (parsed.store is not None and spark is None and engine != "spark")
        tables = tables_of(None if alone else session(), parsed)
        progress("read and replay the trace")
        # Imported here, because the compiler behind the replay takes half a second to import.
        from dispatch_audit.pipeline.explain.answer import Question, answer  # noqa: PLC0415
        from dispatch_audit.pipeline.explain.export import exported  # noqa: PLC0415

        where = None if trace is None else texts(trace)[0]
        question = Question(violation, sticky_hash, key, at_us, topic, subscription, run, where, events)
        found = answer(question, tables, session)
        note = None
        if new is not None and found.evidence and found.finding and found.story:
            progress("look for the shortest trace")
            note = exported(found.evidence, found.story, found.finding, new).sentence
        return Explained(found, note)


def _refuse_contradictions(
    violation: str | None, sticky_hash: int | None, key: str | None, at: Moment | None, export: Path | None
) -> None:
    asked = [
        name
        for name, value in (("--violation", violation), ("--hash", sticky_hash), ("--key", key))
        if value is not None
    ]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} ask for different stories", "pass one of them")
    if not asked and at is None:
        raise UsageError(
            "explain needs a finding, a hash, a key or a moment", "pass --violation ID, --hash H, --key K or --at TIME"
        )
    if violation is not None and at is not None:
        raise UsageError("--violation has a moment of its own and takes no --at", "leave one of them out")
    if export is not None and violation is None:
        raise UsageError("--export writes the shortest trace of a finding", "pass --violation ID")
    if export is not None and export.exists() and (not export.is_dir() or any(export.iterdir())):
        raise UsageError(f"{export} exists", "name a new folder after --export")
