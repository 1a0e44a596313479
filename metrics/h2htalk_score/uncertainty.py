"""How sure a mean or a difference of two systems is, from stored per-example values.

Scenarios that share a persona and user are not independent, so standard errors are clustered (Liang and
Zeger 1986; Miller 2024, arXiv 2411.00640, appendix A), with the small-sample factor G/(G-1) and Student's t
with G-1 degrees of freedom, G the number of clusters. Without clusters every example is its own, which gives
the usual s/sqrt(n). Values may be on any scale; results are on the same one. Nothing here needs SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .student_t import check_share, t_quantile, t_two_sided_p

Array = npt.NDArray[np.float64]
Example = tuple[str, Hashable, "float | None"]
"""Id, cluster and value of one example; None or NaN for a value that is missing."""

FEW_CLUSTERS = 10
# Standard errors below this fraction of the values are rounding, not variation.
_ROUNDING = 1e-12
_BOOT_CELLS = 4_000_000


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval; ``low``, ``high`` and ``se`` are None where none can be given.

    ``note`` says why there is none, or what limits it.
    """

    mean: float
    low: float | None
    high: float | None
    se: float | None
    n: int
    n_clusters: int
    note: str | None = None


@dataclass(frozen=True)
class PairedDifference:
    """Mean of a - b over examples that both have, with interval and two-sided p-value.

    ``n`` counts the pairs used, ``n_dropped`` the examples that lack a value in one system or both. Fields
    are None where nothing can be said; ``note`` says why. ``p_adjusted`` is set by :func:`compare`.
    """

    diff: float | None
    low: float | None
    high: float | None
    se: float | None
    p: float | None
    n: int
    n_clusters: int
    n_dropped: int = 0
    note: str | None = None
    p_adjusted: float | None = None


@dataclass(frozen=True)
class _Sums:
    """Per-cluster sums and sizes: all that means and clustered errors need."""

    sums: Array
    sizes: Array
    scale: float

    @property
    def mean(self) -> float:
        return float(self.sums.sum() / self.sizes.sum())

    def standard_error(self) -> float:
        """sqrt(G/(G-1) * sum over clusters of (summed residuals)^2) / n, for G >= 2."""
        residuals = self.sums - self.mean * self.sizes
        groups = len(self.sums)
        error = math.sqrt(groups / (groups - 1) * float(residuals @ residuals)) / float(self.sizes.sum())
        return 0.0 if error <= _ROUNDING * self.scale else error

    def note(self) -> str | None:
        groups = len(self.sums)
        share = float(self.sizes.max() / self.sizes.sum())
        if groups < 2:
            return "a single cluster: its spread cannot be estimated, so there is no interval"
        if groups < FEW_CLUSTERS:
            return f"only {groups} clusters: the interval is approximate"
        if share > 0.5:
            return f"one cluster holds {share:.0%} of the examples: the interval is approximate"
        return None


def mean_interval(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, level: float = 0.95
) -> Interval:
    """Mean with a cluster-robust t interval.

    Args:
        values: One finite value per example.
        clusters: Cluster of each example; default: every example is its own.
        level: Confidence level in (0, 1).

    Raises:
        ValueError: No values, lengths differ, a value is missing or not finite, or ``level`` is out of range.
    """
    check_share("level", level)
    groups = _group(_finite(values), clusters)
    n, n_clusters = len(values), len(groups.sums)
    if n_clusters < 2:
        return Interval(groups.mean, None, None, None, n, n_clusters, groups.note())
    error = groups.standard_error()
    half = t_quantile(0.5 + level / 2, n_clusters - 1) * error
    return Interval(groups.mean, groups.mean - half, groups.mean + half, error, n, n_clusters, groups.note())


def bootstrap_interval(
    values: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
    n_boot: int = 2000,
    seed: int = 0,
) -> Interval:
    """Mean with a percentile interval from resampling whole clusters; the same seed gives the same interval.

    Raises:
        ValueError: As :func:`mean_interval`, or ``n_boot`` is below 100.
    """
    check_share("level", level)
    if n_boot < 100:
        raise ValueError(f"n_boot must be at least 100, got {n_boot}")
    groups = _group(_finite(values), clusters)
    n, n_clusters = len(values), len(groups.sums)
    if n_clusters < 2:
        return Interval(groups.mean, None, None, None, n, n_clusters, groups.note())
    generator = np.random.default_rng(seed)
    shares = np.full(n_clusters, 1.0 / n_clusters)
    means: list[Array] = []
    block = max(1, _BOOT_CELLS // n_clusters)  # Bounds memory to some 60 MB.
    for start in range(0, n_boot, block):
        # Drawing G clusters with replacement is one multinomial row.
        rows = min(block, n_boot - start)
        times = generator.multinomial(n_clusters, shares, size=rows).astype(np.float64)
        means.append((times @ groups.sums) / (times @ groups.sizes))
    drawn = np.concatenate(means)
    low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2])
    error = float(drawn.std(ddof=1))
    return Interval(groups.mean, float(low), float(high), error, n, n_clusters, groups.note())


def paired_difference(
    a: Sequence[float | None],
    b: Sequence[float | None],
    clusters: Sequence[Hashable] | None = None,
    level: float = 0.95,
) -> PairedDifference:
    """Mean of ``a[i] - b[i]`` with a cluster-robust interval and t test of "no difference".

    Pairs in which a value is None or NaN are left out and counted in ``n_dropped``.

    Raises:
        ValueError: Lengths differ, a value is infinite, or ``level`` is out of range.
    """
    check_share("level", level)
    if len(a) != len(b) or (clusters is not None and len(clusters) != len(a)):
        others = "" if clusters is None else f" and {len(clusters)} clusters"
        raise ValueError(f"{len(a)} values of a, {len(b)} of b{others}: they must be as many")
    x, y = _with_gaps(a, "a"), _with_gaps(b, "b")
    present = np.flatnonzero(~(np.isnan(x) | np.isnan(y)))
    dropped = len(a) - len(present)
    if not len(present):
        return PairedDifference(None, None, None, None, None, 0, 0, dropped, "no example has both values")
    kept = None if clusters is None else [clusters[int(index)] for index in present]
    scale = float(max(np.abs(x[present]).max(), np.abs(y[present]).max()))
    groups = _group(x[present] - y[present], kept, scale)
    n, n_clusters, note = len(present), len(groups.sums), groups.note()
    if n_clusters < 2:
        return PairedDifference(groups.mean, None, None, None, None, n, n_clusters, dropped, note)
    error = groups.standard_error()
    half = t_quantile(0.5 + level / 2, n_clusters - 1) * error
    p: float | None
    if error > 0.0:
        p = t_two_sided_p(groups.mean / error, n_clusters - 1)
    elif abs(groups.mean) <= _ROUNDING * groups.scale:
        p = 1.0
    else:
        p, note = None, "every cluster shows the same difference: there is no spread to test it against"
    low, high = groups.mean - half, groups.mean + half
    return PairedDifference(groups.mean, low, high, error, p, n, n_clusters, dropped, note)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjust p-values for their number by Holm's step-down method (Holm 1979), in the order given.

    Raises:
        ValueError: A p-value is not in [0, 1].
    """
    for name, p in p_values.items():
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"p-value of {name} is {p}, not in [0, 1]")
    adjusted: dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda key: p_values[key])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}


def compare(
    a: Mapping[str, Sequence[Example]], b: Mapping[str, Sequence[Example]], level: float = 0.95
) -> dict[str, PairedDifference]:
    """Compare two systems config by config, p-values Holm-adjusted over the configs that have one.

    Examples are paired by id. One that only one system has counts as dropped; so does a whole config.

    Args:
        a: Per config, ``(id, cluster, value)`` of the first system.
        b: The same of the second.
        level: Confidence level of the intervals, which are not adjusted.

    Raises:
        ValueError: An id comes twice in one config, or has different clusters in ``a`` and ``b``.
    """
    results: dict[str, PairedDifference] = {}
    for config in dict.fromkeys([*a, *b]):
        first, second = _by_id(config, a.get(config, ())), _by_id(config, b.get(config, ()))
        ids = list(dict.fromkeys([*first, *second]))
        for key in ids:
            if key in first and key in second and first[key][0] != second[key][0]:
                raise ValueError(f"{config} {key}: cluster {first[key][0]!r} in a, {second[key][0]!r} in b")
        missing: tuple[Hashable, float | None] = (None, None)
        results[config] = paired_difference(
            [first.get(key, missing)[1] for key in ids],
            [second.get(key, missing)[1] for key in ids],
            [first[key][0] if key in first else second[key][0] for key in ids],
            level,
        )
    adjusted = holm({config: result.p for config, result in results.items() if result.p is not None})
    return {config: replace(result, p_adjusted=adjusted.get(config)) for config, result in results.items()}


def minimum_detectable_effect(
    values_or_sd: Sequence[float] | float,
    n: int | None = None,
    clusters: Sequence[Hashable] | None = None,
    *,
    cluster_size: float = 1.0,
    icc: float = 0.0,
    power: float = 0.8,
    alpha: float = 0.05,
) -> float:
    """Smallest true mean (of differences) that a two-sided test finds with probability ``power``.

    ``(t_{1-alpha/2} + t_{power}) * SE`` with G-1 degrees of freedom (Bloom 1995): about 2.8 SE for 80 %, 5 %.

    Args:
        values_or_sd: Per-example differences of a pilot, or their standard deviation.
        n: Number of examples to plan for; for a pilot, default its own number.
        clusters: Clusters of the pilot's examples.
        cluster_size: With a standard deviation: examples per cluster.
        icc: With a standard deviation: correlation within a cluster; design effect 1 + (size - 1) * icc.
        power: Chance to find the effect.
        alpha: Chance to find one that is not there.

    Raises:
        ValueError: An argument is out of range, or there are fewer than two clusters.
    """
    check_share("power", power)
    check_share("alpha", alpha)
    if n is not None and n < 2:
        raise ValueError(f"n must be at least 2, got {n}")
    if isinstance(values_or_sd, (int, float)):
        if n is None or clusters is not None:
            raise ValueError("with a standard deviation give n, and cluster_size and icc instead of clusters")
        if not (0.0 <= values_or_sd < math.inf and cluster_size >= 1.0 and 0.0 <= icc <= 1.0):
            raise ValueError("needs a standard deviation >= 0, cluster_size >= 1 and icc in [0, 1]")
        n_clusters = n / cluster_size
        error = values_or_sd * math.sqrt((1.0 + (cluster_size - 1.0) * icc) / n)
    else:
        groups = _group(_finite(values_or_sd), clusters)
        n_clusters, error = float(len(groups.sums)), math.nan
        if n_clusters >= 2:
            # A larger or smaller study of the same make: clusters in proportion.
            ratio = 1.0 if n is None else n / len(values_or_sd)
            n_clusters, error = n_clusters * ratio, groups.standard_error() / math.sqrt(ratio)
    if n_clusters < 2:
        raise ValueError("fewer than two clusters: no effect can be detected")
    freedom = n_clusters - 1.0
    return (t_quantile(1.0 - alpha / 2, freedom) + t_quantile(power, freedom)) * error


def _group(values: Array, clusters: Sequence[Hashable] | None, scale: float | None = None) -> _Sums:
    """Sum values by cluster; ``scale`` is the size of the numbers they were computed from."""
    size = float(np.abs(values).max()) if scale is None else scale
    if clusters is None:
        return _Sums(values, np.ones(len(values)), size)
    if len(clusters) != len(values):
        raise ValueError(f"{len(values)} values but {len(clusters)} clusters")
    number: dict[Hashable, int] = {}
    for index, cluster in enumerate(clusters):
        if cluster is None:
            raise ValueError(f"the cluster of example {index} is None")
        number.setdefault(cluster, len(number))
    labels = [number[cluster] for cluster in clusters]
    sums, sizes = np.zeros(len(number)), np.zeros(len(number))
    np.add.at(sums, labels, values)
    np.add.at(sizes, labels, 1.0)
    return _Sums(sums, sizes, size)


def _finite(values: Sequence[float]) -> Array:
    """Values as an array; missing ones are for the caller to leave out knowingly."""
    array = _with_gaps(values, "values")
    if not len(array):
        raise ValueError("no values")
    gaps = np.flatnonzero(np.isnan(array))
    if len(gaps):
        raise ValueError(f"value {gaps[0]} is missing (None or NaN): leave such examples out")
    return array


def _with_gaps(values: Sequence[float | None], name: str) -> Array:
    """Values as an array with NaN for None."""
    array = np.array([math.nan if value is None else float(value) for value in values], dtype=np.float64)
    if np.isinf(array).any():
        raise ValueError(f"{name}: value {np.flatnonzero(np.isinf(array))[0]} is infinite")
    return array


def _by_id(config: str, examples: Sequence[Example]) -> dict[str, tuple[Hashable, float | None]]:
    found: dict[str, tuple[Hashable, float | None]] = {}
    for key, cluster, value in examples:
        if key in found:
            raise ValueError(f"{config}: id {key} comes twice")
        found[key] = (cluster, value)
    return found
