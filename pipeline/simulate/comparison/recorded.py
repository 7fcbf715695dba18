"""What an audit says of the recording that a simulation takes its traffic from: how far the model reproduces it."""

from collections.abc import Sequence

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.groups.replay_group import replay_group
from dispatch_audit.pipeline.groups.replay_rows import packed_rows, with_shown_selector
from dispatch_audit.pipeline.packing.pack import COLUMNS
from dispatch_audit.pipeline.replay.verdicts.finding import ALL
from dispatch_audit.pipeline.run.replay_config import replay_config
from dispatch_audit.pipeline.settings import Settings
from dispatch_audit.pipeline.simulate.measures import MeasuresRow, judged_row, of_topic
from dispatch_audit.pipeline.simulate.work import RecordedSubscription, Work
from dispatch_audit.pipeline.trace.manifest import Manifest


def recorded_row(work: Sequence[Work], manifest: Manifest, settings: Settings) -> MeasuresRow:
    """What the audit finds in the recorded subscriptions, in this process, as `measures.judged_row`.

    Args:
        work: subscriptions of one trace, at least one.
        manifest: of the trace.
        settings: of the audit.

    Raises:
        LimitError: more entries are open at one time than the settings allow.
        TraceError: two recorders wrote as owners of a topic at one time.
    """
    profile = profile_for(manifest.pulsar_version, manifest.settings)
    config = replay_config(manifest, profile, settings, manifest.complete_from_start)
    found = []
    for one in work:
        assert isinstance(one, RecordedSubscription)
        packed = packed_rows(one.rows.select(list(COLUMNS)).to_batches(), config, [one.group])
        shown, recorders = with_shown_selector(packed, one.group, config), packed.recorders_of(one.group.topic)
        found.append(judged_row(replay_group(one.group, packed.of_group[one.group], shown, ALL, recorders=recorders)))
    return of_topic(found)
