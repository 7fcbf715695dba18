"""Finds the run that is to be explained in the tables, and what its audit depended on."""

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from dispatch_audit.pipeline.contract.profile import Profile, profile_named
from dispatch_audit.pipeline.contract.recorded_by import BROKER
from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.run.replay_config import replay_config
from dispatch_audit.pipeline.settings import Settings
from dispatch_audit.pipeline.tables.tables import Tables, every_column, of_run
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.trace import Trace, open_traces
from dispatch_audit.pipeline.trace.seq_range import SeqRange
from dispatch_audit.pipeline.trace.side_by_side import put_together
from dispatch_audit.pipeline.trace.sources import SEPARATOR, places_in
from dispatch_audit.pipeline.windows import chain

_ID: Final = re.compile(r"[0-9a-f]{12}")
_KEY: Final = re.compile(r"[0-9a-f]{1,64}")
# Subscriptions that an error names.
_NAMED_MAX: Final = 5

Row = dict[str, Any]


@dataclass(frozen=True)
class AuditedRun:
    """A run, and what its audit depended on besides the rows of the trace.

    Attributes:
        run_key: its key.
        inputs: the paths of the trace, as in `runs`, or beside the tables where it was moved with them.
        profile: of the broker.
        settings: of the audit.
        seqs: the rows from the beginning of its chain of windows to its own end.
        from_beginning: whether the chain begins with the log.
        answers: whether order was kept and messages made progress, in a few words.
        from_us: the time of its first row; None: it has none.
        to_us: the time of its last row.
    """

    run_key: str
    inputs: tuple[str, ...]
    profile: Profile
    settings: Settings
    seqs: SeqRange
    from_beginning: bool
    answers: str
    from_us: int | None
    to_us: int | None

    def trace(self, moved_to: str | None = None) -> Trace:
        """Returns the trace, with the rows that the run depends on.

        Args:
            moved_to: where the trace is now; None: where it was.

        Raises:
            UsageError: it is not there.
            TraceError: it cannot be read.
        """
        paths = self.inputs if moved_to is None else (moved_to,)
        parts = [place for path in paths for place in places_in(path)]
        try:
            opened = put_together(open_traces(parts, self.profile.name))
        except (UsageError, TraceError) as error:
            raise UsageError(
                f"cannot read the trace of run {self.run_key}: {error.args[0]}", "pass --trace PATH, where it is now"
            ) from None
        if len(opened) > 1:
            raise UsageError(f"{paths[0]} has {len(opened)} traces", "pass --trace with the folder of one")
        recorded_by = opened[0].manifest.recorded_by
        if recorded_by != BROKER:
            raise UsageError(
                f"run {self.run_key} has no dispatcher to follow: its trace was recorded by {recorded_by}",
                "read the rows that the evidence of a finding names",
            )
        return replace(opened[0], seqs=self.seqs)

    def config(self, trace: Trace) -> ReplayConfig:
        """Returns the configuration of the replay."""
        complete = trace.manifest.complete_from_start and self.from_beginning
        return replay_config(trace.manifest, self.profile, self.settings, complete)


def finding_with(tables: Tables, finding_id: str) -> Row:
    """Returns the row of `violations` with an id, of the newest run that has it.

    Raises:
        UsageError: there is none.
    """
    if not _ID.fullmatch(finding_id):
        raise UsageError(f"{finding_id} is no id of a finding", "ids are the 12 hex digits in violations.finding_id")
    if "finding_id" not in _columns(tables, "violations"):
        raise UsageError(f"{tables.target}: the findings have no ids yet", "audit again with this version")
    found = tables.query("violations", every_column(tables, "violations"), f"WHERE finding_id = '{finding_id}'")
    if not found:
        raise UsageError(
            f"{tables.target} has no finding {finding_id}", "take an id from violations.finding_id or from a report"
        )
    of_run_key = {row["run_key"]: row for row in found}
    for run in _runs(tables):
        if run["run_key"] in of_run_key:
            return of_run_key[run["run_key"]]
    raise UsageError(f"{tables.target}: the run of finding {finding_id} is not complete", "audit again")


def run_with(tables: Tables, run_key: str | None = None) -> AuditedRun:
    """Returns a run, without a key the newest one.

    Raises:
        UsageError: there is none.
    """
    if run_key is not None and not _KEY.fullmatch(run_key):
        raise UsageError(f"{run_key} is no key of a run", "keys of runs are in runs.run_key")
    _columns(tables, "runs")
    runs = [run for run in _runs(tables) if run_key is None or run["run_key"] == run_key]
    if not runs:
        name = "no run" if run_key is None else f"no run {run_key}"
        raise UsageError(f"{tables.target} has {name}", "audit a trace into it first, or name another target")
    run = runs[0]
    seqs, from_beginning = _rows_of_chain(tables, run)
    return AuditedRun(
        run["run_key"],
        tuple(_found_again(path, tables.target) for path in run["inputs"]),
        profile_named(run["profile"]),
        Settings.model_validate_json(run["settings"]),
        seqs,
        from_beginning,
        _answers(run),
        run["from_ts_us"],
        run["to_ts_us"],
    )


def _found_again(path: str, target: Target) -> str:
    """Returns the path of a trace, or the one of its name beside the tables if only that is there."""
    if not target.local:
        return path
    home = Path(target.location).parent
    beside = ((place, str(home / Path(place).name)) for place in places_in(path))
    return SEPARATOR.join(
        there if not os.path.lexists(place) and os.path.lexists(there) else place for place, there in beside
    )


def subscription_of(tables: Tables, run_key: str, topic: str | None, subscription: str | None) -> Group:
    """Returns the subscription of a run that the options name.

    Raises:
        UsageError: there is none, or they leave several.
    """
    rows = tables.query("metrics", "DISTINCT topic, subscription", f"WHERE {of_run(run_key)}")
    groups = sorted(Group(row["topic"], row["subscription"]) for row in rows)
    # A topic may be named without its tenant and namespace.
    named = [
        group
        for group in groups
        if (topic is None or group.topic == topic or group.topic.endswith(f"/{topic}"))
        and subscription in (None, group.subscription)
    ]
    if len(named) == 1:
        return named[0]
    listed = ", ".join(f"{group.topic} {group.subscription}" for group in (named or groups)[:_NAMED_MAX])
    more = len(named or groups) - _NAMED_MAX
    listed += f" and {more} more" if more > 0 else ""
    if not named:
        raise UsageError(f"the run has no such subscription, but {listed or 'none at all'}", "name one of these")
    raise UsageError(f"the run has {len(named)} subscriptions: {listed}", "name one with --topic and --subscription")


def _runs(tables: Tables) -> list[Row]:
    """Returns the rows of `runs`, the newest first."""
    return tables.query("runs", "*", "ORDER BY started_at_us DESC, run_key")


def _answers(run: Row) -> str:
    """Returns the answers of a run; an older version of the audit gave a verdict only."""
    order, progress = run.get("order_verdict"), run.get("progress")
    said = f"verdict {run['verdict']}" if order is None else f"order {order}, progress {progress}"
    return said.replace("_", " ")


def _columns(tables: Tables, table_name: str) -> dict[str, str]:
    columns = tables.columns(table_name)
    if columns is None:
        raise UsageError(f"{tables.target} has no table {table_name}", "name the --out of an audit")
    return columns


def _rows_of_chain(tables: Tables, run: Row) -> tuple[SeqRange, bool]:
    """Returns the rows that a run depends on, and whether they begin with the log.

    A window starts from the state that earlier windows left. The replay from the beginning of their chain reaches the
    same state, so no state is read.
    """
    starts_from, first = run["starts_from"], run["first_seq"]
    if starts_from == "state":
        path = chain.path_to(chain.history_in(tables, run["chain"]), run["window_from_us"])
        if path:
            starts_from, first = path[0].starts_from, path[0].first_seq
    return SeqRange(first, run["next_seq"]), starts_from != "censored"
