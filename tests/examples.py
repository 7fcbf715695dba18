"""How much is drawn at random: examples of Hypothesis, and schedules by their seeds.

`--hypothesis-profile` decides: `unit` draws little, for the loop while editing; `gate`, unless one is named, a tenth;
`whole` all that a test asks for.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import pytest
from hypothesis import HealthCheck, settings

_SHARES: Final = {"unit": 0.03, "gate": 0.1, "whole": 1.0}
_LEAST: Final = 3

_Test = TypeVar("_Test", bound=Callable[..., object])


def register_profiles() -> None:
    """Makes the profiles known to Hypothesis; its plugin of pytest loads the one that the command line names."""
    # By no clock: how long an example takes, and to draw it, depends on what else the machine does.
    settings.register_profile("gate", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("gate")
    settings.register_profile("unit", max_examples=10)
    settings.register_profile("whole")


def examples(whole: int, **options: Any) -> Callable[[_Test], _Test]:
    """Draws a share of `whole` examples, and all of them in `make test-slow`.

    Args:
        whole: how many prove something.
        options: further settings of Hypothesis.
    """

    def marked(test: _Test) -> _Test:
        asked: _Test = pytest.mark.examples(settings(max_examples=share_of(whole), **options)(test))
        return asked

    return marked


def share_of(whole: int) -> int:
    """How many are drawn of so many; a test that asks by itself bears the marker `examples`."""
    share = _SHARES.get(settings.get_current_profile_name(), 1.0)
    return min(whole, max(_LEAST, round(whole * share)))
