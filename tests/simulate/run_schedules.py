"""Audits drawn schedules in parallel processes, and prints the seeds whose audit is wrong.

    python tests/simulate/run_schedules.py --first 100000 --number 2000 [--kind stuck_read ...] [--processes 2]

Without `--kind` each seed is run without a fault, and each fault gets as many seeds as all of them share of `--number`.
The exit code is 1 if any finding is false or any fault is missed.
"""

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from traceback import format_exc

# As pytest has them.
_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / "simulate"), str(_TESTS / "replay"), str(_TESTS)]

from drawn_schedules import FAULTS, NONE  # noqa: E402 - needs the path above
from judged_schedules import Judged, judged_schedule  # noqa: E402


def drawn(first: int, number: int, kinds: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The schedules: seeds with their kinds."""
    for kind in kinds:
        share = number if kind == NONE or len(kinds) == 1 else number // (len(kinds) - 1) or 1
        yield from ((seed, kind) for seed in range(first, first + share))


def judged(schedule: tuple[int, str]) -> Judged:
    """The audit of one schedule; an error is reported as a false finding."""
    try:
        return judged_schedule(*schedule)
    except Exception:
        return Judged(*schedule, "?", false=[format_exc()])


def main() -> int:
    """Runs what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, required=True, help="the first seed")
    parser.add_argument("--number", type=int, default=100, help="how many seeds")
    parser.add_argument("--kind", nargs="+", choices=[NONE, *FAULTS], default=[NONE, *FAULTS], help="what is drawn")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--found", action="store_true", help="also print what was found, by kind")
    asked = parser.parse_args()
    schedules = list(drawn(asked.first, asked.number, asked.kind))
    wrong, effects, found = 0, Counter[str](), Counter[tuple[str, ...]]()
    with ProcessPoolExecutor(asked.processes) as pool:
        for outcome in pool.map(judged, schedules, chunksize=4):
            effects[outcome.kind] += outcome.effect
            found.update({(outcome.kind, *what): number for what, number in outcome.found.items()})
            wrong += bool(outcome.false or outcome.missed)
            for sentence in outcome.false:
                print(f"{outcome.kind} {outcome.seed} ({outcome.version}): false: {sentence}", flush=True)
            for sentence in outcome.missed:
                print(f"{outcome.kind} {outcome.seed} ({outcome.version}): missed: {sentence}", flush=True)
    for kind in asked.kind:
        runs = sum(of == kind for _, of in schedules)
        print(f"{kind}: {runs} schedules" + (f", the fault showed in {effects[kind]}" if kind != NONE else ""))
    if asked.found:
        for what, number in sorted(found.items()):
            print(number, *what)
    print(f"{len(schedules)} schedules, {wrong} of them wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
