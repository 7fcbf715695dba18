"""Words for the steps of a story and for the state of its hash."""

from collections.abc import Collection, Mapping
from typing import Any

from dispatch_audit.pipeline.explain.hash_observer import SeenHash
from dispatch_audit.pipeline.explain.steps import Step
from dispatch_audit.pipeline.explain.story import Story
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.wording import named, printable
from dispatch_audit.pipeline.run.key_lookup import key_text

# Positions of one row that are named.
_POSITIONS_MAX = 3


class StoryWords:
    """Words for one story."""

    def __init__(self, story: Story) -> None:
        """Takes the story."""
        self._names = story.events.names
        self._settings_changed = story.events.settings_changed
        self._recorders = story.events.recorders
        self._of_hash = {
            (step.row["ledger_id"], step.row["entry_id"]) for step in story.steps if step.row["ledger_id"] is not None
        }

    def consumer(self, number: int | None) -> str:
        """A consumer by the replay's number, by name and number: names may be equal (Q19)."""
        if number is None:
            return "nobody"
        spoken = f"consumer {self._recorders.spoken_consumer(number)}"
        name = self._names.get(number)
        return f"{printable(name)} ({spoken})" if name else spoken

    def event(self, step: Step) -> str:
        """An event in a few words."""
        row, event = step.row, step.row["event"]
        phase = f" {row['phase']}" if step.until == step.place and row["phase"] else ""
        if event == "publish":
            producer = f" by {printable(row['producer_name'])}" if row["producer_name"] else ""
            return f"publish {_position(row)}{producer}{_key(row)}"
        if event == "dispatch":
            again = f", redelivery {row['redelivery_count']}" if row["redelivery_count"] else ""
            return f"dispatch{phase} {_position(row)} to {self._of_row(row)}{again}{_key(row)}"
        if event in ("ack", "redeliver"):
            kind = f" {row['ack_type']}" if row["ack_type"] == "cumulative" else ""
            return f"{event}{kind}{phase} {self._positions(row)} by {self._of_row(row)}"
        reason = f", {row['reason']}" if row["reason"] else ""
        if event in ("join", "leave", "reset"):
            of = "" if event == "reset" else f" {self._of_row(row)}"
            return f"{event}{phase}{of}{reason}"
        if event in ("gap", "settings"):
            changed = self._settings_changed.get(step.place, ())
            return _gap(row) if event == "gap" else f"settings: {_settings(row, changed)}"
        return f"{event}{phase}" if row["consumer"] is None else f"{event}{phase} {self._of_row(row)}"

    def state(self, seen: SeenHash) -> str:
        """Who owns and holds the hash, and what waits; consumers by name and number."""
        owner = f"owner {self._short(seen.owner)}"
        if seen.undecided:
            owner += f" (undecided: {printable(seen.undecided)})"
        held = ", ".join(f"{self._short(number)} {entries}" for number, entries in seen.held.items())
        parts = [owner, f"pending: {held}" if held else "nothing pending"]
        if seen.drains_from is not None:
            parts.append(f"draining: {self._short(seen.drains_from)} -> {self._short(seen.drains_to)}")
        if seen.waiting:
            parts.append(f"waiting: {seen.waiting}, in replay {seen.in_replay}")
        return "; ".join(parts)

    def _short(self, number: int | None) -> str:
        if number is None:
            return "nobody"
        spoken = self._recorders.spoken_consumer(number)
        return f"{printable(self._names.get(number) or 'consumer')} ({spoken})"

    def _of_row(self, row: Mapping[str, Any]) -> str:
        number = row["consumer"]
        if number is None:
            return "a consumer without a number"
        names, broker = self._recorders.names, row["broker"]
        return self.consumer(number * len(names) + names.index(broker) if broker in names else number)

    def _positions(self, row: Mapping[str, Any]) -> str:
        named = [(p["ledger_id"], p["entry_id"]) for p in row["positions"] or ()]
        if not named:
            return "all that is pending"
        shown = [position for position in named if position in self._of_hash] or named
        texts = [f"{ledger}:{entry}" for ledger, entry in shown[:_POSITIONS_MAX]]
        more = len(named) - len(texts)
        return ", ".join(texts) + (f" and {more} more" if more else "")


def _gap(row: Mapping[str, Any]) -> str:
    lost = ", ".join(map(printable, row["dropped_events"] or ())) or "any event"
    return f"gap: the recorder dropped {count(row['dropped'], 'row')} ({lost}) up to seq {row['seq_end']}"


def _settings(row: Mapping[str, Any], changed: Collection[str]) -> str:
    """What a row `settings` changes; all that it says if it changes nothing."""
    sources = dict(row["sources"] or ())
    return ", ".join(
        f"{printable(name)} = {'the default' if value is None else printable(value)}"
        + (f" ({printable(sources[name])})" if sources.get(name) else "")
        for name, value in sorted(dict(row["settings"] or ()).items())
        if name in changed or not changed
    )


def _position(row: Mapping[str, Any]) -> str:
    return f"{row['ledger_id']}:{row['entry_id']}"


def _key(row: Mapping[str, Any]) -> str:
    return "" if row["key"] is None else f", key {named(key_text(row['key']))}"
