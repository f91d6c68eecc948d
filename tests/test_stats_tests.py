"""The tests themselves: agreement with scipy, statsmodels and scikit-posthocs, edge cases, properties."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wmlab.errors import InputError
from wmlab.stats import effect
from wmlab.stats.arrays import mid_ranks, percentile_interval
from wmlab.stats.bootstrap import Ratio, TaskCell, bootstrap_cells, two_level
from wmlab.stats.correlation import spearman
from wmlab.stats.friedman import friedman, friedman_from_rank_sums, nemenyi_p, rank_cells
from wmlab.stats.mcnemar import discordant, mcnemar
from wmlab.stats.sign import sign_test

FAST = settings(max_examples=40, deadline=None)
RATES = st.integers(0, 20).map(lambda x: x / 20)  # many ties, as real rates have
SIZES = st.tuples(st.integers(1, 9), st.integers(2, 5))
TABLES = SIZES.flatmap(
    lambda s: st.lists(st.lists(RATES, min_size=s[1], max_size=s[1]), min_size=s[0], max_size=s[0])
)
VECTORS = st.lists(st.floats(-1, 1, allow_nan=False), min_size=1, max_size=12)


@FAST
@given(TABLES)
def test_friedman_agrees_with_scipy(table: list[list[float]]) -> None:
    from scipy.stats import friedmanchisquare, rankdata

    values = np.array(table)
    found = friedman(values)
    assert np.array_equal(rank_cells(values)[0], rankdata(-values, axis=1))
    if values.shape[1] < 3 or np.ptp(values, axis=1).max() == 0:
        return  # scipy refuses two methods and divides by zero when all is tied
    wanted = friedmanchisquare(*values.T)
    assert found.statistic == pytest.approx(wanted.statistic, rel=1e-9, abs=1e-9)
    assert found.p == pytest.approx(wanted.pvalue, rel=1e-9)


def test_friedman_edges() -> None:
    tied = friedman(np.full((5, 3), 0.4))
    assert (tied.statistic, tied.p, tied.iman_davenport_f) == (0.0, 1.0, None)
    one = friedman([[0.1, 0.2]])
    assert one.statistic == 1.0 and one.mean_ranks == (2.0, 1.0)
    perfect = friedman(np.tile([3.0, 2.0, 1.0], (4, 1)))
    assert perfect.statistic == 8.0 and perfect.iman_davenport_f is None
    noisy = friedman([[0.1 + 0.2, 0.3, 0.0]])  # 0.1 + 0.2 and 0.3 are one rate
    assert noisy.tie_sum == 6
    with pytest.raises(InputError, match="do not add up"):
        friedman_from_rank_sums([1, 2, 3], 2)
    with pytest.raises(InputError, match="1 method"):
        friedman([[0.1], [0.2]])


def test_nemenyi_agrees_with_scikit_posthocs() -> None:
    posthocs = pytest.importorskip("scikit_posthocs")
    values = np.random.default_rng(1).random((10, 4))
    ranks = friedman(values).mean_ranks
    wanted = np.asarray(posthocs.posthoc_nemenyi_friedman(values))
    for i in range(4):
        for j in range(i):
            assert nemenyi_p(ranks[i] - ranks[j], 4, 10) == pytest.approx(wanted[i, j], rel=1e-6)


@FAST
@given(st.integers(0, 30), st.integers(0, 30))
def test_mcnemar_agrees_with_statsmodels(b: int, c: int) -> None:
    from statsmodels.stats.contingency_tables import mcnemar as oracle

    if b + c == 0:
        return  # statsmodels divides by zero
    table = [[5, b], [c, 5]]
    assert mcnemar(b, c).p == pytest.approx(oracle(table, exact=True).pvalue)
    assert mcnemar(b, c, "plain").p == pytest.approx(oracle(table, exact=False, correction=False).pvalue)
    if b != c:  # statsmodels turns equal counts into a statistic above 0 there
        assert mcnemar(b, c, "corrected").p == pytest.approx(
            oracle(table, exact=False, correction=True).pvalue
        )
    else:
        assert mcnemar(b, c, "corrected").p == 1.0


def test_mcnemar_inputs() -> None:
    assert discordant([True, True, False, False], [True, False, True, False]) == (1, 1)
    for bad in (lambda: mcnemar(-1, 2), lambda: mcnemar(1, 2, "mid-p"), lambda: discordant([], [])):
        with pytest.raises(InputError):
            bad()


@FAST
@given(st.lists(st.tuples(RATES, RATES), min_size=1, max_size=12))
def test_sign_agrees_with_scipy(pairs: list[tuple[float, float]]) -> None:
    from scipy.stats import binomtest

    left, right = np.array(pairs).T
    found = sign_test(left, right)
    assert found.wins + found.losses + found.ties == len(pairs)
    n = found.wins + found.losses
    assert found.p == (pytest.approx(binomtest(found.wins, n).pvalue) if n else 1.0)


@FAST
@given(st.lists(st.tuples(RATES, RATES), min_size=2, max_size=9))
def test_spearman_agrees_with_scipy(pairs: list[tuple[float, float]]) -> None:
    from scipy.stats import spearmanr

    left, right = np.array(pairs).T
    found = spearman(left, right, resamples=50)
    if np.ptp(left) == 0 or np.ptp(right) == 0:
        assert found.rho is None and found.reason
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found.rho == pytest.approx(spearmanr(left, right).statistic, abs=1e-12)
    swapped = spearman(left, -right, resamples=50)
    assert swapped.rho == -found.rho
    if found.ci is not None and swapped.ci is not None:
        assert swapped.ci == (-found.ci[1], -found.ci[0])


def test_spearman_refuses_one_agent_and_counts_undefined_resamples() -> None:
    with pytest.raises(InputError, match="at least 2"):
        spearman([1.0], [2.0])
    found = spearman([1, 2], [1, 2], resamples=400, seed=5)
    assert found.rho == 1.0 and found.ci == (1.0, 1.0) and 120 < found.undefined < 280


@FAST
@given(VECTORS, st.integers(0, 5))
def test_the_interval_of_minus_d_is_minus_the_interval_of_d(values: list[float], seed: int) -> None:
    d = np.array(values)
    one, other = bootstrap_cells(d, seed=seed, resamples=300), bootstrap_cells(-d, seed=seed, resamples=300)
    assert other.ci == (-one.ci[1], -one.ci[0]) and other.mean_difference == -one.mean_difference


def test_percentiles_agree_with_numpy() -> None:
    x = np.random.default_rng(0).normal(size=1234)
    assert percentile_interval(x, 0.9) == tuple(pytest.approx(v) for v in np.percentile(x, [5, 95]))
    assert percentile_interval(np.array([2.0]), 0.95) == (2.0, 2.0)


def test_bootstrap_edges() -> None:
    one = bootstrap_cells([0.2], resamples=99)
    assert one.ci == (0.2, 0.2) and one.p == 0.01 and one.p_plain == 0.0
    constant = bootstrap_cells([0.1] * 7, resamples=99)
    assert constant.ci == (pytest.approx(0.1), pytest.approx(0.1)) and constant.r == 0
    tied = bootstrap_cells([0.0] * 4, resamples=99)
    assert tied.ci == (0.0, 0.0) and tied.p == 1.0
    noise = bootstrap_cells([0.1 + 0.2 - 0.3], resamples=9)  # 5.6e-17 is no win
    assert noise.r == 9
    assert bootstrap_cells([0.1, -0.3], seed=4) == bootstrap_cells([0.1, -0.3], seed=4)
    with pytest.raises(InputError, match="resamples"):
        bootstrap_cells([0.1], resamples=0)


@FAST
@given(TABLES, st.randoms(use_true_random=False))
def test_permuting_cells_changes_no_deterministic_statistic(table: list[list[float]], random: Any) -> None:
    shuffled = list(table)
    random.shuffle(shuffled)
    one, other = np.array(table), np.array(shuffled)
    assert friedman(one) == friedman(other)
    for function in (sign_test, effect.cliffs_delta, effect.rank_biserial):
        assert function(one[:, 0], one[:, 1]) == function(other[:, 0], other[:, 1])
    assert effect.sample_deviation(one[:, 0]) == effect.sample_deviation(other[:, 0])
    first = bootstrap_cells(one[:, 0] - one[:, 1], resamples=10)
    assert first.mean_difference == bootstrap_cells(other[:, 0] - other[:, 1], resamples=10).mean_difference


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: friedman([[x, 1.0], [0.5, 0.2]]),
        lambda x: sign_test([x], [1.0]),
        lambda x: bootstrap_cells([x, 1.0]),
        lambda x: spearman([x, 1.0], [1.0, 2.0]),
        lambda x: effect.cliffs_delta([x], [1.0]),
        lambda x: effect.rank_biserial([x], [1.0]),
        lambda x: effect.holm({"a": x}),
    ],
)
def test_nan_and_infinity_are_refused(function: Callable[[float], Any], bad: float) -> None:
    with pytest.raises(InputError):
        function(bad)


def test_empty_unequal_and_textual_inputs_are_refused() -> None:
    for call in (
        lambda: sign_test([], []),
        lambda: sign_test([1.0], [1.0, 2.0]),
        lambda: bootstrap_cells(["x"]),  # type: ignore[list-item]
        lambda: two_level([]),
    ):
        with pytest.raises(InputError):
            call()


def ratios(*outcomes: str, real: str) -> list[Ratio]:
    bottom = np.array([float(letter) for letter in real])
    return [Ratio(np.array([float(letter) for letter in text]) * bottom, bottom) for text in outcomes]


def test_two_level_point_estimate_interval_and_sign() -> None:
    real = "1111111100"
    cells = [
        TaskCell(ratios("1111110000", "1111111000", real=real), ratios("1111000000", real=real)),
        TaskCell(ratios("1111111100", real=real), ratios("1111110000", real=real)),
    ]
    found = two_level(cells, seed=2, resamples=2000)
    assert found.mean_difference == pytest.approx(((6 / 8 + 7 / 8) / 2 - 4 / 8 + 8 / 8 - 6 / 8) / 2)
    assert found.ci[0] < found.mean_difference < found.ci[1] and found.undefined == 0
    swapped = two_level([TaskCell(cell.other, cell.target) for cell in cells], seed=2, resamples=2000)
    assert swapped.ci == (-found.ci[1], -found.ci[0])
    over_cells = bootstrap_cells([0.3125, 0.25], seed=2, resamples=2000)
    assert found.ci[1] - found.ci[0] > over_cells.ci[1] - over_cells.ci[0]


def test_two_level_matches_the_binomial_in_one_cell() -> None:
    """With one cell and all tasks solved in Real the rate is a binomial share: its deviation is known."""
    real = "1" * 50
    cell = TaskCell(ratios("1" * 20 + "0" * 30, real=real), ratios("0" * 50, real=real))
    found = two_level([cell], seed=1, resamples=20_000)
    half = 1.96 * math.sqrt(0.4 * 0.6 / 50)
    assert found.ci == (pytest.approx(0.4 - half, abs=0.021), pytest.approx(0.4 + half, abs=0.021))


def test_two_level_without_enough_successes() -> None:
    rare = TaskCell(ratios("10", real="10"), ratios("00", real="10"))
    common = TaskCell(ratios("11", real="11"), ratios("11", real="11"))
    assert two_level([rare, common, common], resamples=200).undefined > 0
    alone = two_level([rare], resamples=400)  # (1/2)^2 of the draws hold no Real success
    assert alone.resamples == 400 - alone.undefined and 50 < alone.undefined < 150
    with pytest.raises(InputError):
        two_level([TaskCell(ratios("00", real="00"), ratios("00", real="00"))], resamples=20)
    with pytest.raises(InputError, match="sizes"):
        two_level([TaskCell(ratios("00", real="11"), ratios("0", real="1"))], resamples=20)


def test_effect_sizes() -> None:
    assert effect.cliffs_delta([3, 4], [1, 2]) == 1.0 and effect.cliffs_delta([1, 2], [1, 2]) == 0.0
    assert effect.rank_biserial([1, 5, 2], [0, 2, 4]) == pytest.approx((1 + 3 - 2) / 6)
    assert effect.rank_biserial([1, 1], [1, 1]) == 0.0
    assert mid_ranks(np.array([5.0, 1.0, 5.0])).tolist() == [2.5, 1.0, 2.5]
    assert effect.sample_deviation([0.3]) is None


@settings(max_examples=8, deadline=None)  # the oracle takes a tenth of a second a call
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_agrees_with_statsmodels(p_values: list[float]) -> None:
    from statsmodels.stats.multitest import multipletests

    found = effect.holm({str(place): p for place, p in enumerate(p_values)})
    assert list(found) == [str(place) for place in range(len(p_values))]
    assert list(found.values()) == pytest.approx(multipletests(p_values, method="holm")[1].tolist())


def test_minimum_detectable_differences() -> None:
    d = effect.detectable_over_tasks(200, 0.3)
    assert d is not None
    z_a, z_b = 1.959964, 0.841621
    assert math.sqrt(200) * d == pytest.approx(z_a * math.sqrt(0.3) + z_b * math.sqrt(0.3 - d * d), rel=1e-6)
    assert effect.detectable_over_tasks(5, 0.1) is None and effect.detectable_over_tasks(9, 0.0) is None
    assert effect.detectable_over_cells(0.1, 400) < effect.detectable_over_cells(0.1, 16)
    with pytest.raises(InputError):
        effect.detectable_over_cells(0.1, 1)
    with pytest.raises(InputError):
        effect.detectable_over_tasks(10, 1.5)
