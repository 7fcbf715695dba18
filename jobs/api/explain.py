"""Returns the events behind a finding, a hash or key, an entry, a consumer, or a moment."""

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
            print_story(found.story, found.finding, found.source, console, found.consumers)

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
        return json_story(found.story, found.finding, found.run_key, found.consumers)


def explain(
    target: PathLike = DEFAULT_TARGET,
    *,
    violation: str | None = None,
    sticky_hash: int | None = None,
    key: str | None = None,
    entry: str | None = None,
    consumer: str | None = None,
    at: Moment | None = None,
    begin: Moment | None = None,
    end: Moment | None = None,
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
    """Returns the events behind a finding, a hash, a key, an entry, a consumer or a moment.

    Args:
        target: the `out` of the audit.
        violation: the id of a finding (`Finding.finding_id`).
        sticky_hash: a sticky hash.
        key: a key, whose hash is computed as the broker does.
        entry: an entry, `LEDGER:ENTRY`.
        consumer: the name of a consumer, of all that have it; or the number of one, as reports show it.
        at: a moment: alone the state of a subscription, else the story around it.
        begin: where the span of a story begins; None: with the trace.
        end: where it ends, not in it; None: with the trace.
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
        asked = {
            "--violation": violation,
            "--hash": sticky_hash,
            "--key": key,
            "--entry": entry,
            "--consumer": consumer,
        }
        _refuse_contradictions([name for name, value in asked.items() if value is not None], at, begin, end, new)
        position = None if entry is None else _position(entry)
        at_us, begin_us, end_us = (
            None if (text := moment_text(of)) is None else moment_us(text) for of in (at, begin, end)
        )
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
        question = Question(
            violation,
            sticky_hash,
            key,
            position,
            consumer,
            at_us,
            begin_us,
            end_us,
            topic,
            subscription,
            run,
            where,
            events,
        )
        found = answer(question, tables, session)
        note = None
        if new is not None and found.evidence and found.finding and found.story:
            progress("look for the shortest trace")
            note = exported(found.evidence, found.story, found.finding, new).sentence
        return Explained(found, note)


def _position(entry: str) -> tuple[int, int]:
    ledger, _, number = entry.partition(":")
    if not (ledger.isdecimal() and number.isdecimal()):
        raise UsageError(f"{entry} is no entry", "write LEDGER:ENTRY, as reports do: 3:25")
    return int(ledger), int(number)


def _refuse_contradictions(
    asked: list[str], at: Moment | None, begin: Moment | None, end: Moment | None, export: Path | None
) -> None:
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} ask for different stories", "pass one of them")
    span = begin is not None or end is not None
    if not asked and (at is None or span):
        raise UsageError(
            "explain needs a finding, a hash, a key, an entry, a consumer or a moment",
            "pass --violation ID, --hash H, --key K, --entry LEDGER:ENTRY, --consumer NAME or --at TIME",
        )
    of_finding = "--violation" in asked
    if of_finding and (at is not None or span):
        raise UsageError("--violation has a moment of its own and takes no other", "leave one of them out")
    if at is not None and span:
        raise UsageError("--at asks for a moment, --from and --to for a span", "leave one of them out")
    if export is not None and not of_finding:
        raise UsageError("--export writes the shortest trace of a finding", "pass --violation ID")
    if export is not None and export.exists() and (not export.is_dir() or any(export.iterdir())):
        raise UsageError(f"{export} exists", "name a new folder after --export")
