"""Arithmetic of figures and ratios, on invented runs."""

import pytest

from benchmarks.figures import figures_of, ratios, summed_up
from benchmarks.measure import Used
from benchmarks.plan import Name
from benchmarks.runs import Measured, in_rotation, require_equal_work
from dispatch_audit.pipeline.errors import DispatchAuditError


def measured(plan: Name, wall_s: float, cpu_jvm_s: float = 1, cpu_python_s: float = 2, **found: int) -> Measured:
    used = Used(cpu_jvm_s, cpu_python_s, peak_memory_mb=900, peak_jvm_mb=600, peak_python_mb=400, peak_worker_mb=150)
    shuffled = None if plan in ("duckdb", "polars") else 12
    return Measured(plan, 5, 7, 0.5, 1, wall_s, used, shuffled, found)


def test_figures_of_a_run() -> None:
    figures = figures_of(measured("audit", 10, 12, 4), events=8_000, cores=4, small_events=500)
    assert figures["cpu_s"] == 16
    assert figures["fixed_s"] == 0.5
    # 15 seconds more than the small trace for 7,500 events more.
    assert figures["cpu_us_per_event"] == 2_000
    assert figures["events_per_s"] == 800
    assert figures["events_per_s_per_core"] == 200
    assert figures["events_per_cpu_s"] == 500
    assert figures["shuffle_bytes"] == 12
    assert "shuffle_bytes" not in figures_of(measured("duckdb", 10), 8_000, 4, 500)


def test_a_run_too_short_for_the_clock_of_the_cpu() -> None:
    assert figures_of(measured("duckdb", 0.002, 0, 0), 50, 1, 9)["events_per_cpu_s"] == 5_000


def test_median_and_spread() -> None:
    runs = [figures_of(measured("audit", wall), 60, 1, 9) for wall in (4, 1, 30)]
    assert summed_up(runs)["wall_s"] == (4, 1, 30)
    assert summed_up(runs)["events_per_s"] == (15, 2, 60)
    assert summed_up(runs[:2])["wall_s"].median == 2.5


def test_ratios_are_of_medians() -> None:
    def plan(name: Name, *walls: float, cpu: float = 1) -> tuple[Name, object]:
        return name, summed_up([figures_of(measured(name, wall, cpu, 0), 1, 1, 1) for wall in walls])

    plans = dict([plan("audit", 9, 10, 99, cpu=30), plan("row_floor", 4, 5, 6), plan("own_floor", 8, cpu=20)])
    assert ratios(plans) == {  # type: ignore[arg-type]  # `plan` names no type of figures
        "audit_over_row_floor_wall": 2,
        "audit_over_row_floor_cpu": 30,
        "audit_over_own_floor_wall": 1.25,
        "audit_over_own_floor_cpu": 1.5,
    }


def test_each_round_begins_with_another_plan() -> None:
    rounds = [in_rotation(["audit", "duckdb", "polars"], number) for number in range(4)]
    assert [order[0] for order in rounds] == ["audit", "duckdb", "polars", "audit"]
    assert {frozenset(order) for order in rounds} == {frozenset({"audit", "duckdb", "polars"})}


def test_plans_that_did_other_work_are_not_compared() -> None:
    floor, duck = measured("row_floor", 1, rows=7), measured("duckdb", 1, first_delivery_order=0, single_holder=3)
    require_equal_work([floor, duck, measured("polars", 1, first_delivery_order=0, single_holder=3)], events=7)
    with pytest.raises(DispatchAuditError, match=r"row_floor found {'rows': 7} in a trace of 8 rows"):
        require_equal_work([floor], events=8)
    with pytest.raises(DispatchAuditError, match=r"disagree .* duckdb: .*3.*; polars: .*4"):
        require_equal_work([duck, measured("polars", 1, first_delivery_order=0, single_holder=4)], events=7)
