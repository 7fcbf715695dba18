"""Tells a story to the audit and prints what the audit says: the runner of the scripts beside it.

`SCENARIOS_REWRITE=1 pytest tests/scenarios` regenerates their output; only commit what you understand.

A script is blocks of commands, `----` and what they print, up to a blank line; `#` begins a comment. Every row is one
millisecond after the one before. What a recorder writes at the start and at the end of an effect is two rows, unless
`start` or `end` at the end of a command keeps one of them. An entry `7` is 1:7, and `7-9` are three; a consumer `c2` is
number 2.

    broker 4.0.8 [setting=value ...]             a new story, on that version
    key h: c2 among c1 c2, c1 among c1           a key whose hash is c2's once c1 and c2 joined in this order, and ...
    key h: slot 11-19                            a key by its hash under STICKY
    key g: like h                                another key on the hash of h
    join c2 [as NAME] [ranges 0-10,20-30] [out-of-order]      `join nobody`: the broker refused it
    leave c2 [because closed_by_broker]          also `reset seek`
    stats [mark-delete 1:5] [replay 5990] [read 1:6] [pending no]  a snapshot; entries in replay, read position, and
                                                 whether the dispatcher waits for a read
    stats of c1 c2                               with the ranges of c1 and c2, which joined in this order
    claim setting=value ...                      trace.json says something else from here on than the broker has
    flow c1 5                                    c1 asks for messages
    publish 1 2 h [batch 3] [delayed [2500ms]] [in T]         a minute unless it says how long; in: a transaction
    dispatch 1 2 c1 [of h]                       `of` names the key of an entry that was never published
    ack 1 2 c1 [indexes 0,2] [in T]              with indexes: these messages of the batch only
    nack 1 2 c1                                  also `redeliver-all c1`
    lose 4 [unnamed]                             the recorder drops the last 4 rows; unnamed: any events
    wait 10ms
    mark NAME, back to NAME                      go on with another end of the same story
    audit [on 4.0.4]                             findings, refused rows, draining and blocking of the story so far
    epochs, ranges, consumers, capacity, metrics [on ...]     the rows of those tables
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import count, takewhile
from typing import Any, Final, TypeAlias

import audit_text
import numpy as np
import pyarrow as pa

from dispatch_audit.pipeline.assignment import make_selector
from dispatch_audit.pipeline.contract.profile import Profile, SelectorKind, profile_for
from dispatch_audit.pipeline.groups.replay_group import replay_group
from dispatch_audit.pipeline.packing.pack import COLUMNS, pack
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.udfs.sticky_key_hash import sticky_hashes

Columns: TypeAlias = dict[str, Any]
Fits: TypeAlias = Callable[[int], object]

_GROUP: Final = Group("persistent://public/default/orders", "ks")
_START_US: Final = 1_767_225_600_000_000  # 2026-01-01: without a wait the milliseconds of a time are its seq
_WRITTEN: Final = frozenset({"ack", "leave"})  # a story that has none of these says that there was none
_SKEW_US: Final = 10_000  # the default of conf/audit.toml
_POSITION = pa.struct([("ledger_id", pa.int64()), ("entry_id", pa.int64()), ("ack_set", pa.list_(pa.int64()))])
_TYPES: Mapping[str, pa.DataType] = {
    **dict.fromkeys(COLUMNS, pa.string()),
    **dict.fromkeys(("seq", "ts_us", "ledger_id", "entry_id", "sequence_id", "deliver_at_ms", "consumer"), pa.int64()),
    "batch_size": pa.int32(),
    "permits": pa.int32(),
    "key": pa.binary(),
    "sticky_hash": pa.int32(),
    "seq_end": pa.int64(),
    "dropped": pa.int64(),
    "dropped_events": pa.list_(pa.string()),
    "settings": pa.map_(pa.string(), pa.string()),
    "sources": pa.map_(pa.string(), pa.string()),
    "seq_begin": pa.int64(),
    "positions": pa.list_(_POSITION),
    "allow_out_of_order": pa.bool_(),
    "ranges": pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32())])),
}


def run(script: str) -> str:
    """The script with the output that its commands have now."""
    story, blocks = Story(), []
    for part in re.split(r"\n\n+", script.strip("\n")):
        commands, mark, _ = f"{part}\n".partition("\n----\n")
        blocks.append("\n".join([commands, "----", *story.block(commands)]) if mark else part)
    return "\n\n".join(blocks) + "\n"


def blocks(script: str) -> Iterator[str]:
    """The commands of each block of a script."""
    for part in re.split(r"\n\n+", script.strip("\n")):
        commands, mark, _ = f"{part}\n".partition("\n----\n")
        if mark:
            yield commands


class Story:
    """The rows that a script has written so far, and the names that it gave."""

    def __init__(self) -> None:
        self._new("4.0.8", {})

    def _new(self, version: str, settings: Mapping[str, object]) -> None:
        self._version, self._settings = version, settings
        self._rows: list[Columns] = []
        self._now_us = _START_US
        self._keys: dict[str, tuple[bytes, int]] = {}
        self._entries: dict[str, Columns] = {}
        self._marks: dict[str, tuple[list[Columns], int]] = {}

    @property
    def rows(self) -> list[Columns]:
        """The rows so far."""
        return self._rows

    @property
    def config(self) -> ReplayConfig:
        """What a replay of the story depends on besides its rows."""
        return self._rules(self._version)

    def block(self, text: str) -> Iterator[str]:
        """Runs the commands of a block and yields the lines that they print."""
        for line in text.splitlines():
            if not line.startswith("#"):
                verb, *words = line.split()
                before = len(self._rows)
                yield from getattr(self, f"do_{verb.replace('-', '_')}")(words) or ()
                new = [row["seq"] for row in self._rows[before:]]
                if new:
                    seqs = str(new[0]) if len(new) == 1 else f"{new[0]}-{new[-1]}"
                    yield f"{seqs:<6} {line}"

    def do_broker(self, words: list[str]) -> Iterator[str]:
        self._new(words[0], _settings(words[1:]))
        yield f"profile {profile_for(self._version, self._settings).name}"

    def do_claim(self, words: list[str]) -> None:
        self._settings = {**self._settings, **_settings(words)}

    def do_key(self, words: list[str]) -> Iterator[str]:
        name, wish = words[0].rstrip(":"), " ".join(words[1:])
        config, kind = self._rules(self._version), self._rules(self._version).selector(sticky="slot" in words)
        if wish.startswith("like"):
            fits: list[Fits] = [self._keys[words[-1]][1].__eq__]
        elif wish.startswith("slot"):
            low, high = (int(slot) for slot in words[-1].split("-"))
            fits = [range(low, high + 1).__contains__]
        else:
            fits = [_owned(clause.split(), config, kind) for clause in wish.split(",")]
        taken = {key for key, _ in self._keys.values()}
        found = (kh for kh in _keys(config.profile, kind) if kh[0] not in taken and all(fit(kh[1]) for fit in fits))
        key, sticky_hash = self._keys[name] = next(found)
        yield f"{name} is {key.decode()}, hash {sticky_hash}"

    def do_join(self, words: list[str]) -> None:
        ranges = _after(words, "ranges")
        self._write_sides(
            "join",
            words,
            consumer=None if words[0] == "nobody" else _number(words[0]),
            consumer_name=_after(words, "as") or words[0],
            key_shared_mode="STICKY" if ranges else "AUTO_SPLIT",
            allow_out_of_order="out-of-order" in words,
            ranges=[dict(zip(("start", "end"), map(int, r.split("-")), strict=True)) for r in ranges.split(",") if r],
        )

    def do_leave(self, words: list[str]) -> None:
        self._write_sides("leave", words, consumer=_number(words[0]), reason=_after(words, "because") or None)

    def do_reset(self, words: list[str]) -> None:
        self._write_sides("reset", words, reason=words[0])

    def do_stats(self, words: list[str]) -> None:
        reported: Columns = {"mark_delete_position": _after(words, "mark-delete") or None}
        if "replay" in words:
            reported["msg_in_replay"] = int(_after(words, "replay"))
        if words[:1] == ["of"]:
            reported["consumers"] = _reported(words[1:], self._rules(self._version))
        if "read" in words:
            reported["read_position"] = _after(words, "read")
        if "pending" in words:
            reported["subscription_have_pending_replay_read"] = False
            reported["subscription_have_pending_read"] = _after(words, "pending") == "yes"
        self._write("stats", snapshot=json.dumps(reported))

    def do_flow(self, words: list[str]) -> None:
        self._write("flow", consumer=_number(words[0]), permits=int(words[1]))

    def do_publish(self, words: list[str]) -> None:
        entries, key = _named(words)
        for entry in entries:
            batch = {"key": self._keys[key][0], "batch_size": int(_after(words, "batch") or 1)}
            self._entries[entry] = {**_position(entry), **batch}
            delay_ms = int(_after(words, "delayed").removesuffix("ms") or 60_000)
            due_ms = self._now_us // 1000 + delay_ms if "delayed" in words else None
            more: Columns = {"deliver_at_ms": due_ms, "transaction": _after(words, "in") or None}
            self._write("publish", **self._entries[entry], **more)

    def do_dispatch(self, words: list[str]) -> None:
        entries, consumer = _named(words)
        for entry in entries:
            if "of" in words:
                self._entries[entry] = {**_position(entry), "key": self._keys[_after(words, "of")][0], "batch_size": 1}
            self._write_sides("dispatch", words, consumer=_number(consumer), **self._entries[entry])

    def do_ack(self, words: list[str]) -> None:
        entries, consumer = _named(words)
        positions: list[Columns] = [{**_position(entry), "ack_set": None} for entry in entries]
        if "indexes" in words:
            done = {int(index) for index in _after(words, "indexes").split(",")}
            size = self._entries[entries[0]]["batch_size"]
            positions[0]["ack_set"] = [sum(1 << index for index in range(size) if index not in done)]
        columns: Columns = {
            "positions": positions,
            "ack_type": "individual",
            "transaction": _after(words, "in") or None,
        }
        self._write_sides("ack", words, consumer=_number(consumer), **columns)

    def do_nack(self, words: list[str]) -> None:
        entries, consumer = _named(words)
        positions = [{**_position(entry), "ack_set": None} for entry in entries]
        self._write("redeliver", consumer=_number(consumer), positions=positions)

    do_redeliver_all = do_nack

    def do_lose(self, words: list[str]) -> Iterator[str]:
        number = int(words[0])
        lost, self._rows = self._rows[-number:], self._rows[:-number]
        first, last = lost[0], lost[-1]
        gap: Columns = {name: first[name] for name in ("seq", "ts_us", "topic")}
        gap |= {"event": "gap", "subscription": _GROUP.subscription, "seq_end": last["seq"], "dropped": number}
        gap["dropped_events"] = None if "unnamed" in words else sorted({row["event"] for row in lost})
        self._rows.append(gap)
        seqs = f"{first['seq']}-{last['seq']}"
        yield f"{seqs:<6} lose {' '.join(words)}"

    def do_wait(self, words: list[str]) -> None:
        self._now_us += int(words[0].removesuffix("ms")) * 1000

    def do_mark(self, words: list[str]) -> None:
        self._marks[words[0]] = (list(self._rows), self._now_us)

    def do_back(self, words: list[str]) -> None:
        rows, self._now_us = self._marks[words[-1]]
        self._rows = list(rows)

    def do_audit(self, words: list[str]) -> list[str]:
        hashes: dict[int, str] = {}
        for name, (_, sticky_hash) in self._keys.items():
            hashes.setdefault(sticky_hash, name)
        return audit_text.audit(self._replayed(words), hashes)

    def do_epochs(self, words: list[str]) -> list[str]:
        return audit_text.epochs(self._replayed(words))

    def do_ranges(self, words: list[str]) -> list[str]:
        return audit_text.ranges(self._replayed(words))

    def do_consumers(self, words: list[str]) -> list[str]:
        return audit_text.consumers(self._replayed(words))

    def do_capacity(self, words: list[str]) -> list[str]:
        return audit_text.capacity(self._replayed(words))

    def do_metrics(self, words: list[str]) -> list[str]:
        return audit_text.metrics(self._replayed(words))

    def _replayed(self, words: list[str]) -> audit_text.Tables:
        config = self._rules(_after(words, "on") or self._version)
        columns = [pa.array([row.get(name) for row in self._rows], _TYPES[name]) for name in COLUMNS]
        batch = pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))
        chunks = pack(batch, config.profile)
        tables: audit_text.Tables = {}
        for table, found in replay_group(_GROUP, chunks, config, findings_per_rule_max=100):
            values = [
                column.tolist() if isinstance(column, np.ndarray | pa.Array) else column for column in found.values()
            ]
            rows = zip(*values, strict=True)
            tables.setdefault(table, []).extend(dict(zip(found, row, strict=True)) for row in rows)
        return tables

    def _rules(self, version: str) -> ReplayConfig:
        profile = profile_for(version, self._settings)
        broker, given = profile.broker(self._settings), frozenset(self._settings)
        return ReplayConfig(profile, version, broker, _SKEW_US, 1_000_000, given=given, written=_WRITTEN)

    def _write(self, event: str, **columns: object) -> None:
        self._now_us += 1_000
        last: Columns = self._rows[-1] if self._rows else {"seq": 0}
        last_seq = last["seq_end"] if "seq_end" in last else last["seq"]
        place: Columns = {"seq": last_seq + 1, "ts_us": self._now_us, "topic": _GROUP.topic}
        place["subscription"] = None if event == "publish" else _GROUP.subscription
        self._rows.append({"event": event, **place, **columns})

    def _write_sides(self, event: str, words: list[str], **columns: object) -> None:
        for phase in [words[-1]] if words[-1] in {"start", "end"} else ["start", "end"]:
            self._write(event, phase=phase, **columns)


def _keys(profile: Profile, kind: SelectorKind) -> Iterator[tuple[bytes, int]]:
    """Keys and their sticky hashes, without an end."""
    for start in count(0, 1 << 14):
        keys = [b"key-%d" % number for number in range(start, start + (1 << 14))]
        yield from zip(keys, sticky_hashes(keys, profile.hash[kind]).tolist(), strict=True)


def _owned(clause: list[str], config: ReplayConfig, kind: SelectorKind) -> Fits:
    """Whether a hash is `c2 among c1 c2`; `c3=c1` is a c3 that is called c1."""
    selector = make_selector(kind, config.points, config.profile)
    for label, _, name in (word.partition("=") for word in clause[2:]):
        selector.add(_number(label), name or label, None)
    return lambda sticky_hash: selector.select(sticky_hash) == _number(clause[0])


def _reported(labels: list[str], config: ReplayConfig) -> list[Columns]:
    """The consumers of a snapshot, which joined in this order, with their ranges."""
    selector = make_selector(config.selector(sticky=False), config.points, config.profile)
    for label in labels:
        selector.add(_number(label), label, None)
    ranges: dict[int, list[list[int]]] = {_number(label): [] for label in labels}
    for start, end, consumer in selector.ranges().rows:
        ranges[consumer].append([start, end])
    return [{"consumer": consumer, "key_hash_ranges": of_one} for consumer, of_one in ranges.items()]


def _settings(words: list[str]) -> Columns:
    return {name: json.loads(value) for name, value in (word.split("=") for word in words)}


def _named(words: list[str]) -> tuple[list[str], str]:
    """The entries that a command begins with, and the word after them."""
    named = list(takewhile(lambda word: word[0].isdigit(), words))
    return [entry for word in named for entry in _each(word)], words[len(named)]


def _each(word: str) -> list[str]:
    first, _, last = word.partition("-")
    return [str(entry) for entry in range(int(first), int(last) + 1)] if last else [word]


def _after(words: list[str], word: str) -> str:
    return words[words.index(word) + 1] if word in words[:-1] else ""


def _position(entry: str) -> Columns:
    ledger, _, number = entry.rpartition(":")
    return {"ledger_id": int(ledger or 1), "entry_id": int(number)}


def _number(label: str) -> int:
    return int(label.removeprefix("c"))
