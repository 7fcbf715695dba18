"""A comparison of dispatchers: what was simulated, and the result under each of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dispatch_audit.pipeline.simulate.measures import MeasuresRow
from dispatch_audit.pipeline.simulate.series import Series

if TYPE_CHECKING:
    # It imports the compiler of the replay, which a text about its result does not need.
    from dispatch_audit.pipeline.simulate.what_if import Searched


@dataclass(frozen=True)
class VariantResult:
    """The result of one variant of the dispatcher.

    Attributes:
        name: of the variant.
        version: of the broker that was simulated.
        policy: of the dispatcher.
        measures: of the whole topic; those of the audit only if it was audited.
        series: of the whole topic.
    """

    name: str
    version: str
    policy: str
    measures: MeasuresRow
    series: Series

    @property
    def stalls(self) -> bool:
        """Whether no consumer made progress at some time, although one could have."""
        return bool(self.measures["no_progress_s"] > 0)

    @property
    def findings(self) -> int:
        """Violations that the audit found, those that a known bug explains included; 0 if it was not audited."""
        return findings_in(self.measures)


def findings_in(row: MeasuresRow) -> int:
    """Violations, those that a known bug explains included; 0 if there was no audit."""
    return int(row.get("violations", 0)) + int(row.get("known_bugs", 0))


@dataclass(frozen=True)
class VariantComparison:
    """The results of several variants of the dispatcher on the same traffic.

    Attributes:
        traffic: the workload or trace, as the caller named it.
        version: of the broker that the traffic names.
        seed: of the broker's random choices.
        partitions: how many were simulated.
        audited: whether what each dispatcher did was audited.
        dispatchers: at least one; the first one is that of the traffic, as given.
        left_out: a sentence for each subscription that could not be simulated.
        search: the result of a search for the smallest setting without a stall; None: there was none.
        recorded: what the audit says of the recording that the traffic is from; None: it is from none, or not audited.
    """

    traffic: str
    version: str
    seed: int
    partitions: int
    audited: bool
    dispatchers: tuple[VariantResult, ...]
    left_out: tuple[str, ...] = ()
    search: "Searched | None" = None
    recorded: MeasuresRow | None = None

    @property
    def given(self) -> VariantResult:
        """The dispatcher of the traffic."""
        return self.dispatchers[0]

    def as_json(self) -> dict[str, Any]:
        """The measures as one object for programs."""
        result: dict[str, Any] = {
            "traffic": self.traffic,
            "left_out": list(self.left_out),
            "recorded": self.recorded,
            "variants": [
                {"variant": one.name, "release": one.version, "policy": one.policy, **one.measures}
                for one in self.dispatchers
            ],
        }
        if self.search is not None:
            result["search"] = {
                "settings": list(self.search.names),
                "smallest": self.search.value,
                "tried": self.search.tried,
            }
        return result
