"""Diagnoses as JSON: everything that the text says, for programs."""

import json
from collections import Counter
from dataclasses import asdict
from typing import Any

from dispatch_audit.pipeline.statistics.diagnose import Result
from dispatch_audit.pipeline.statistics.diagnosis import Diagnosis, Reason
from dispatch_audit.pipeline.statistics.facts import SubscriptionFacts
from dispatch_audit.pipeline.statistics.model import Position
from dispatch_audit.pipeline.statistics.output.words import ORDER, look_ahead_limit


def json_diagnoses(result: Result) -> str:
    """Returns one JSON object, without a newline at its end."""
    answers = Counter(diagnosis.answer for diagnosis in result.diagnoses)
    return json.dumps(
        {
            "alarm": result.is_alarm,
            "answers": dict(answers),
            "diagnoses": [_diagnosis(diagnosis) for diagnosis in result.diagnoses],
            "order": ORDER,
            "log": list(result.log),
            "questions": list(result.questions),
            "left_out": list(result.remarks),
        },
        indent=1,
        ensure_ascii=True,
    )


def _diagnosis(diagnosis: Diagnosis) -> dict[str, Any]:
    last = diagnosis.history.moments[-1]
    return {
        "topic": diagnosis.history.topic,
        "subscription": diagnosis.history.subscription,
        "answer": diagnosis.answer,
        "certainty": diagnosis.certainty,
        "headline": diagnosis.headline,
        "alarm": diagnosis.is_alarm,
        "reasons": [_reason(reason) for reason in diagnosis.reasons],
        "facts": None if diagnosis.facts is None else facts_of(diagnosis.facts),
        "lacks": list(diagnosis.lacks),
        "pulsar_version": diagnosis.release,
        "dumps": len(diagnosis.history.moments),
        "taken_ms": last.clock.at_ms,
        "taken_by": last.clock.source,
        "files": diagnosis.history.files,
    }


def _reason(reason: Reason) -> dict[str, Any]:
    found = asdict(reason)
    found["known_bugs"] = found.pop("bugs")
    return found


def facts_of(facts: SubscriptionFacts) -> dict[str, Any]:
    """Returns the counters of a subscription at its last moment, without the ranges of consumers."""
    sub, cursor, movement = facts.subscription, facts.cursor, facts.movement
    return {
        "type": sub.type,
        "mode": sub.mode,
        "complete": not facts.subscription.cut,
        "msg_backlog": sub.backlog,
        "msg_in_replay": sub.replay,
        "msg_delayed": sub.delayed,
        "unacked_messages": sub.unacked,
        "blocked_on_unacked": sub.blocked,
        "unread": facts.unread,
        "waiting_at_least": facts.waiting,
        "look_ahead_limit": look_ahead_limit(facts),
        "mark_delete_position": None if cursor is None else _position(cursor.mark_delete),
        "read_position": None if cursor is None else _position(cursor.read_position),
        "waiting_read_op": None if cursor is None else cursor.waiting_read,
        "pending_read_ops": None if cursor is None else cursor.pending_reads,
        "have_pending_read": None if cursor is None else cursor.have_pending_read,
        "have_pending_replay_read": None if cursor is None else cursor.have_pending_replay_read,
        "sent_between_dumps": None if movement is None else movement.sent,
        "seconds_between_dumps": None if movement is None else movement.seconds,
        "consumers": [
            {
                "consumer_name": c.name,
                "address": c.address,
                "client_version": c.client_version,
                "available_permits": c.permits,
                "unacked_messages": c.unacked,
                "msg_out_counter": c.sent,
                "blocked_on_unacked": c.blocked,
                "draining_hashes_count": c.draining_count,
                "draining_hashes_unacked_messages": c.draining_entries,
                "blocked_attempts": None if c.draining is None else sum(attempts for _, _, attempts in c.draining),
                "last_acked_ms": c.last_acked_ms,
            }
            for c in facts.consumers
        ],
    }


def _position(at: Position | None) -> str | None:
    return None if at is None else f"{at[0]}:{at[1]}"
