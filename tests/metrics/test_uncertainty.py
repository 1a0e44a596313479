"""Intervals and tests: against SciPy, against worked examples, and by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from h2htalk_metric.uncertainty import (
    bootstrap_interval,
    compare,
    holm,
    mean_interval,
    minimum_detectable_effect,
    paired_difference,
    t_quantile,
    t_two_sided_p,
)

FREEDOMS = [1, 1.5, 2, 3, 4.1, 9, 10, 30, 49, 99, 100, 101, 500, 4649, 1e5, 1e6]


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_student_t_agrees_with_scipy(freedom: float) -> None:
    for q in (0.5001, 0.51, 0.6, 0.8, 0.95, 0.975, 0.995, 0.9999, 1 - 1e-8, 0.025, 1e-6):
        assert t_quantile(q, freedom) == pytest.approx(stats.t.ppf(q, freedom), rel=1e-9)
    for t in (1e-3, 0.1, 0.5, 1.0, 1.96, 3.0, 5.0, 10.0, 40.0, 1000.0):
        expected = 2 * stats.t.sf(t, freedom)
        if expected > 1e-100:
            assert t_two_sided_p(-t, freedom) == pytest.approx(expected, rel=1e-10)


def test_mean_interval_worked_by_hand() -> None:
    # Mean 2.5; cluster residual sums -2 and 2; variance 2/1 * (4 + 4) / 4^2 = 1; t(0.975, 1) = 12.7062.
    interval = mean_interval([1.0, 2.0, 3.0, 4.0], ["a", "a", "b", "b"])
    assert (interval.mean, interval.se, interval.n, interval.n_clusters) == (2.5, 1.0, 4, 2)
    assert interval.low == pytest.approx(2.5 - 12.706204736, abs=1e-8)
    assert interval.high == pytest.approx(2.5 + 12.706204736, abs=1e-8)
    assert interval.note is not None and "2 clusters" in interval.note


@given(
    st.lists(st.floats(-100, 100), min_size=2, max_size=40), st.integers(1, 5), st.sampled_from([0.8, 0.95])
)
def test_without_clusters_it_is_the_t_interval_and_copies_add_no_certainty(
    values: list[float], copies: int, level: float
) -> None:
    plain = mean_interval(values, level=level)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    half = stats.t.ppf(0.5 + level / 2, len(values) - 1) * error
    assert plain.low == pytest.approx(plain.mean - half, rel=1e-8, abs=1e-9)
    # Every example repeated, copies in one cluster: the interval must not shrink.
    clusters = np.arange(len(values)).repeat(copies).tolist()
    repeated = mean_interval([v for v in values for _ in range(copies)], clusters, level)
    assert repeated.se == pytest.approx(plain.se, rel=1e-8, abs=1e-9)
    assert repeated.high == pytest.approx(plain.high, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("interval", [mean_interval, bootstrap_interval])
def test_one_cluster_gives_no_interval_and_says_why(interval: Callable[..., object]) -> None:
    result = interval([1.0, 2.0, 3.0], ["p", "p", "p"])
    assert vars(result)["mean"] == 2.0
    assert [vars(result)[name] for name in ("low", "high", "se", "n_clusters")] == [None, None, None, 1]
    assert "cluster" in vars(result)["note"]
    difference = paired_difference([1.0, 2.0, 3.0], [0.0, 0.0, 1.0], ["p", "p", "p"])
    assert difference.diff == pytest.approx(5 / 3)
    assert (difference.low, difference.high, difference.se, difference.p) == (None, None, None, None)
    assert vars(interval([4.0]))["low"] is None


def test_a_dominating_cluster_is_pointed_out() -> None:
    clusters = ["big"] * 60 + [f"c{i}" for i in range(20)]
    note = mean_interval(np.linspace(0, 1, 80).tolist(), clusters).note
    assert note is not None and "75%" in note


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match="no values"):
        mean_interval([])
    with pytest.raises(ValueError, match="value 1 is missing"):
        mean_interval([1.0, math.nan])
    with pytest.raises(ValueError, match="value 2 is infinite"):
        bootstrap_interval([1.0, 2.0, math.inf])
    with pytest.raises(ValueError, match="2 values but 1 clusters"):
        mean_interval([1.0, 2.0], ["a"])
    with pytest.raises(ValueError, match="cluster of example 1 is None"):
        mean_interval([1.0, 2.0], ["a", None])
    with pytest.raises(ValueError, match="level"):
        mean_interval([1.0, 2.0], level=95)
    with pytest.raises(ValueError, match="3 values of a, 2 of b"):
        paired_difference([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="p-value of x"):
        holm({"x": math.nan})


def test_bootstrap_is_deterministic_and_near_the_t_interval() -> None:
    values, clusters = _clustered(np.random.default_rng(3), 60, 8, 0.5)
    first, again = (bootstrap_interval(values, clusters, n_boot=4000) for _ in range(2))
    other = bootstrap_interval(values, clusters, n_boot=4000, seed=1)
    assert first == again and first != other
    robust = mean_interval(values, clusters)
    assert first.mean == robust.mean
    assert first.se == pytest.approx(robust.se, rel=0.06)
    assert robust.low is not None and first.low == pytest.approx(robust.low, abs=0.15 * (robust.se or 0))
    naive = bootstrap_interval(values, n_boot=4000)
    assert naive.se is not None and first.se is not None and naive.se < 0.6 * first.se


def test_paired_difference_without_clusters_is_the_paired_t_test() -> None:
    generator = np.random.default_rng(0)
    a, b = generator.normal(0.3, 1, 30), generator.normal(0, 1, 30)
    result = paired_difference(a.tolist(), b.tolist())
    expected = stats.ttest_rel(a, b)
    low, high = expected.confidence_interval()
    assert (result.p, result.low, result.high) == pytest.approx((expected.pvalue, low, high), rel=1e-9)
    flipped = paired_difference(b.tolist(), a.tolist())
    assert flipped.p == result.p and flipped.diff == pytest.approx(-(a - b).mean())


def test_pairs_with_a_gap_are_left_out_and_counted() -> None:
    a = [1.0, None, 3.0, 4.0, math.nan, 2.0]
    b = [0.5, 1.0, None, 3.0, 1.0, 2.5]
    result = paired_difference(a, b, list("uvwxyz"))
    assert (result.n, result.n_dropped, result.n_clusters) == (3, 3, 3)
    assert result.diff == pytest.approx((0.5 + 1.0 - 0.5) / 3)
    empty = paired_difference([None], [1.0])
    assert (empty.diff, empty.p, empty.n, empty.n_dropped) == (None, None, 0, 1) and empty.note


def test_no_spread_gives_no_false_certainty() -> None:
    same = paired_difference([0.1, 0.2, 0.3], [0.1, 0.2, 0.3])
    assert (same.diff, same.p) == (0.0, 1.0)
    # 0.3 - 0.2, 0.4 - 0.3, ... differ by rounding only: that is no evidence of spread.
    constant = paired_difference([0.3, 0.4, 0.5], [0.2, 0.3, 0.4])
    assert constant.p is None and constant.note is not None and "no spread" in constant.note


def test_holm_known_answer() -> None:
    # Example of Holm's method with four p-values: 4*0.005, 3*0.01, 2*0.03, then the running maximum.
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert adjusted == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})
    assert list(adjusted) == ["a", "b", "c", "d"]
    assert holm({"a": 0.9, "b": 0.8}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


def test_compare_pairs_by_id_and_adjusts_over_the_configs() -> None:
    generator = np.random.default_rng(5)
    a: dict[str, list[tuple[str, str, float]]] = {}
    b: dict[str, list[tuple[str, str, float]]] = {}
    p_values: dict[str, float] = {}
    for config, shift in (("DialogueBase", 0.8), ("ItineraryBasic", 0.3), ("ItineraryMiddle", 0.0)):
        x, y = generator.normal(shift, 1, 40), generator.normal(0, 1, 40)
        clusters = [f"c{i // 2}" for i in range(40)]
        rows = list(zip([f"{config}-{i:04d}" for i in range(40)], clusters, x.tolist(), strict=True))
        others = list(zip([f"{config}-{i:04d}" for i in range(40)], clusters, y.tolist(), strict=True))
        p = paired_difference(x.tolist(), y.tolist(), clusters).p
        assert p is not None
        p_values[config] = p
        a[config], b[config] = rows[::-1], others
    a["ItineraryResponse"] = [("ItineraryResponse-0000", "c0", 1.0)]
    result = compare(a, b)
    for config, p in p_values.items():
        assert result[config].p == pytest.approx(p)
    assert {c: result[c].p_adjusted for c in p_values} == pytest.approx(holm(p_values))
    lonely = result["ItineraryResponse"]
    assert (lonely.diff, lonely.n, lonely.n_dropped, lonely.p_adjusted) == (None, 0, 1, None)
    b["ItineraryBasic"][0] = ("ItineraryBasic-0000", "elsewhere", 0.0)
    with pytest.raises(ValueError, match="ItineraryBasic-0000: cluster 'c0' in a, 'elsewhere' in b"):
        compare(a, b)
    with pytest.raises(ValueError, match="id x comes twice"):
        compare({"DialogueBase": [("x", "c", 1.0), ("x", "c", 2.0)]}, b)


def test_minimum_detectable_effect() -> None:
    # 2.8 SE for many examples: 2.8016 * 0.6 / sqrt(4650) = 0.02465; few examples need Student's t.
    assert minimum_detectable_effect(0.6, 4650) == pytest.approx(0.02465, rel=1e-3)
    assert minimum_detectable_effect(0.6, 41) == pytest.approx(
        (stats.t.ppf(0.975, 40) + stats.t.ppf(0.8, 40)) * 0.6 / math.sqrt(41)
    )
    # Clusters of 10 with ICC 0.3: as if n were divided by 3.7 (at G - 1 degrees of freedom).
    wide = minimum_detectable_effect(0.6, 4650, cluster_size=10, icc=0.3)
    assert wide == pytest.approx(0.02465 * math.sqrt(3.7), rel=5e-3)
    values, clusters = _clustered(np.random.default_rng(1), 50, 10, 0.7)
    pilot = minimum_detectable_effect(values, clusters=clusters)
    assert pilot == pytest.approx(minimum_detectable_effect(1.0, 500, cluster_size=10, icc=0.7), rel=0.2)
    assert minimum_detectable_effect(values, 2000, clusters) == pytest.approx(pilot / 2, rel=0.02)
    with pytest.raises(ValueError, match="fewer than two clusters"):
        minimum_detectable_effect([1.0, 2.0], clusters=["a", "a"])
    with pytest.raises(ValueError, match="give n"):
        minimum_detectable_effect(0.6)


def _clustered(
    generator: np.random.Generator, groups: int, size: int, icc: float, mean: float = 0.0
) -> tuple[list[float], list[int]]:
    """Values of variance 1 around ``mean`` with correlation ``icc`` within a cluster."""
    shared = generator.normal(0, math.sqrt(icc), groups).repeat(size)
    values = mean + shared + generator.normal(0, math.sqrt(1 - icc), groups * size)
    return values.tolist(), np.arange(groups).repeat(size).tolist()


def test_false_positives_under_clustering() -> None:
    # 5,000 runs of a true null, 50 clusters x 10 items, ICC 0.7: Monte-Carlo error 0.3 points.
    generator = np.random.default_rng(2026)
    runs, robust, naive = 5000, 0, 0
    baseline = [0.0] * 500
    for _ in range(runs):
        values, clusters = _clustered(generator, 50, 10, 0.7)
        robust += (paired_difference(values, baseline, clusters).p or 0.0) < 0.05
        naive += (paired_difference(values, baseline).p or 0.0) < 0.05
    assert 0.04 <= robust / runs <= 0.06
    assert naive / runs > 0.20


def test_bootstrap_interval_covers_under_clustering() -> None:
    generator = np.random.default_rng(7)
    missed = {"robust": 0, "naive": 0}
    runs = {"robust": 1000, "naive": 100}
    for run in range(runs["robust"]):
        values, clusters = _clustered(generator, 50, 10, 0.7)
        intervals = {"robust": bootstrap_interval(values, clusters, n_boot=500)}
        if run < runs["naive"]:
            intervals["naive"] = bootstrap_interval(values, n_boot=500)
        for name, interval in intervals.items():
            assert interval.low is not None and interval.high is not None
            missed[name] += not interval.low <= 0.0 <= interval.high
    # The percentile bootstrap is a little narrow at 50 clusters; the t interval is the one to test with.
    assert 0.035 <= missed["robust"] / runs["robust"] <= 0.08
    assert missed["naive"] / runs["naive"] > 0.30


def test_minimum_detectable_effect_is_found_as_often_as_it_says() -> None:
    # 2,000 runs with a true effect of just that size: power 0.8, Monte-Carlo error 0.9 points.
    effect = minimum_detectable_effect(1.0, 300, cluster_size=10, icc=0.5)
    generator = np.random.default_rng(11)
    found = 0
    for _ in range(2000):
        values, clusters = _clustered(generator, 30, 10, 0.5, effect)
        found += (paired_difference(values, [0.0] * 300, clusters).p or 0.0) < 0.05
    assert 0.77 <= found / 2000 <= 0.83
