"""What simulations say in a terminal: a table that fits 80 columns, and a conclusion as the last sentence."""

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from compared import MEASURES, STALLED, comparison, dispatcher
from rich.console import Console

from dispatch_audit.pipeline.simulate.comparison.comparison import VariantComparison
from dispatch_audit.pipeline.simulate.comparison.conclusion import headline, meaning, reproduction
from dispatch_audit.pipeline.simulate.comparison.simulation_text import print_simulation
from dispatch_audit.pipeline.simulate.comparison.text import print_comparison
from dispatch_audit.pipeline.simulate.measures import MeasuresRow
from dispatch_audit.pipeline.simulate.setup import setup_for
from dispatch_audit.pipeline.simulate.variants import variants_for
from dispatch_audit.pipeline.simulate.what_if import Searched

_LARGE: dict[str, Any] = {"never_sent": 1_234_567, "replay_peak": 1_234_567, "violations": 1_234, "no_progress_s": 1e4}


def compared_text(found: VariantComparison, width: int = 80) -> list[str]:
    stream = StringIO()
    print_comparison(found, Console(file=stream, width=width))
    return stream.getvalue().splitlines()


def test_a_comparison_fits_80_columns_and_ends_with_its_conclusion() -> None:
    search = Searched(("keySharedLookAheadMsgInReplayThresholdPerSubscription",), 1_600, {1_600: 0.0})
    found = comparison(dispatcher("last sent position (PIP-282)", **_LARGE), dispatcher("other"), search=search)
    lines = compared_text(found)
    assert max(map(len, lines)) <= 80
    for row in ("as given ", "last sent position ", "other "):
        assert any(line.startswith(row) for line in lines)
    text = " ".join(" ".join(lines).split())
    assert text.endswith(f"Result No progress for 1.5 s as given. {meaning(found)}")
    assert "Search The smallest keySharedLookAheadMsgInReplayThresholdPerSubscription without a stall: 1,600" in text


def test_what_was_not_audited_has_no_number_of_violations() -> None:
    measures = {name: value for name, value in MEASURES.items() if name != "violations"}
    found = comparison(audited=False)
    found.given.measures.clear()
    found.given.measures.update({**measures, **STALLED})
    row = next(line for line in compared_text(found) if line.startswith("as given"))
    assert row.split()[3] == "-"


def simulated_text(measured: list[MeasuresRow]) -> list[str]:
    stream = StringIO()
    print_simulation(measured, setup_for("4.0.8", {}), Path("my trace"), Console(file=stream, width=80))
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("measured", "result"),
    [
        (
            [{**MEASURES, "never_sent": 0}] * 2,
            "2 partitions of Pulsar 4.0.8 (draining): nothing stalls, and all is sent.",
        ),
        (
            [{**MEASURES, **STALLED}],
            "1 partition of Pulsar 4.0.8 (draining): it stalls, the first after 2.0 s, with no progress for up to 1.5 "
            "s in all; 100 entries of 1,500 never sent.",
        ),
        (
            [MEASURES, {**MEASURES, **STALLED}],
            "2 partitions of Pulsar 4.0.8 (draining): 1 stalls, the first after 2.0 s, with no progress for up to 1.5 "
            "s in all; 200 entries of 3,000 never sent.",
        ),
    ],
)
def test_a_simulation_ends_with_what_came_of_it(measured: list[MeasuresRow], result: str) -> None:
    lines = simulated_text(measured)
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert "Next dispatch-audit audit 'my trace'" in text
    assert text.endswith(f"Result {result}")


def test_of_many_partitions_those_that_stall_are_shown() -> None:
    large = {**MEASURES, "entries": 1_234_567, "sent": 1_234_567}
    lines = simulated_text([large] * 199 + [{**large, **STALLED}])
    assert len(lines) <= 24
    assert any(line.split()[0] == "199" for line in lines if line)
    assert "        and 188 more partitions, none of them held up for longer" in lines


def _with_recording(of_recording: dict[str, Any], **given: Any) -> VariantComparison:
    audited = {"violations": 0, "known_bugs": 0, "held_up_s": 0.0, "judged": 100}
    found = comparison(recorded={**audited, **of_recording})
    found.given.measures.update({**audited, "no_progress_s": 0.0, "stalled_at_s": None, **given})
    return found


def test_the_first_row_is_the_recording_and_a_sentence_says_how_far_it_is_reproduced() -> None:
    alike = _with_recording({"held_up_s": 7.3}, held_up_s=7.2)
    lines = compared_text(alike)
    assert max(map(len, lines)) <= 80
    assert lines[2].split()[:3] == ["recorded", "4.0.8", "0"]
    assert reproduction(alike) == (
        "recorded: 100 dispatches, 0 findings, held up for 7.3 s; simulated as given: 100 dispatches, 0 findings, held "
        "up for 7.2 s."
    )


def test_order_that_was_broken_is_not_kept_because_the_model_keeps_it() -> None:
    broken = _with_recording({"violations": 6, "known_bugs": 7})
    assert "13 findings" in reproduction(broken)
    assert reproduction(broken).endswith("does not reproduce its findings, so it does not show what would end them.")
    assert headline(broken) == "Order is kept and nothing stalls as given, but only in the simulation"


def test_waits_that_the_model_does_not_have_are_said() -> None:
    assert "does not reproduce its waits" in reproduction(_with_recording({"held_up_s": 30.0}))


def test_releases_are_not_ranked_against_each_other() -> None:
    other = replace(dispatcher("recently joined (3.3)", replay_peak=1), version="3.3.2")
    found = comparison(dispatcher("limits twice as high"), other)
    assert "1 of 2 dispatchers of 4.0.8 keeps the order" in meaning(found)
    assert "(100 entries at most) under limits twice as high" in meaning(found)
    assert "recently joined (3.3) (3.3.2) keeps the order and never stalls" in meaning(found)


def test_what_a_release_does_not_have_is_no_alternative_to_what_it_did() -> None:
    names = {variant.name: variant.setup("3.0.7", {}, 0).version for variant in variants_for("3.0.7", {})}
    assert names == {
        "as given": "3.0.7",
        "AutoSplit": "3.0.7",
        "draining hashes (PIP-379)": "4.0.8",
        "last sent position (PIP-282)": "3.0.7",
    }
