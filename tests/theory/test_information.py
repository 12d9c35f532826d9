from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.special import log_ndtr
from scipy.stats import norm
from theory_reference import columns

import paredown as pdn
from paredown.theory import entropy, gibbs, information_gain


def test_exact_reference_points() -> None:
    table = columns("gibbs")
    # At alpha = 2 and f = 0.01 the equations are nearly degenerate; there the table holds the point at which a plain
    # 4000 x 20 Gauss-Legendre rule over (t, z) closes both of them to 3e-13.
    found = gibbs(table["alpha_prune"], table["keep_fraction"])
    for name in ("q", "R", "information_gain"):
        np.testing.assert_allclose(getattr(found, name), table[name], rtol=1e-8, err_msg=name)


def test_paper_reference_points() -> None:
    table = columns("gibbs")
    found = gibbs(table["alpha_prune"], table["keep_fraction"], form="paper", missing="nan")
    np.testing.assert_allclose(found.R, table["paper_R"], rtol=1e-9)
    np.testing.assert_allclose(found.information_gain, table["paper_information_gain"], rtol=1e-8)
    np.testing.assert_array_equal(np.isnan(found.q), np.isnan(table["paper_R"]))


@pytest.mark.parametrize(("alpha", "f"), [(1.0, 0.3), (3.0, 0.5), (5.0, 1.0)])
def test_information_gain_is_the_loss_of_entropy(alpha: float, f: float) -> None:
    h = 1e-3
    near, far = (entropy(alpha + step, f) - entropy(alpha - step, f) for step in (h, 2 * h))
    slope = (8 * near - far) / (12 * h)
    np.testing.assert_allclose(-slope, information_gain(alpha, f), rtol=1e-9)


def test_without_pruning_both_forms_agree_and_q_is_r() -> None:
    exact, paper = gibbs(2.3), gibbs(2.3, form="paper")
    np.testing.assert_allclose([exact.q, paper.q, paper.R], exact.R, rtol=1e-11)
    np.testing.assert_allclose(paper.information_gain, exact.information_gain, rtol=1e-10)
    np.testing.assert_allclose(300 * gibbs(300.0).test_error, 0.62466, rtol=1e-3)


def test_information_gain_by_independent_quadrature() -> None:
    s = gibbs(1.3, 0.4)
    gamma, spread = norm.isf(0.3), np.sqrt(s.q - s.R**2)

    def integrand(t: float, z: float) -> float:
        return norm.pdf(t) * norm.pdf(z) / 0.4 * log_ndtr((spread * t + s.R * z) / np.sqrt(1 - s.q))

    value = -2 * dblquad(integrand, 0, gamma, -9, 9, epsabs=1e-10)[0]
    np.testing.assert_allclose(s.information_gain, value, rtol=1e-8)


def test_harder_examples_tell_more() -> None:
    f = np.array([1.0, 0.7, 0.4, 0.1])
    for alpha in (0.5, 2.0, 8.0):
        assert (np.diff(information_gain(alpha, f)) > 0).all()


def test_mistakes_are_explained() -> None:
    with pytest.raises(pdn.PareError, match="imposes q = R, and its entropy has no stationary point at alpha_prune=1"):
        information_gain(1.0, 0.4, form="paper")
    with pytest.raises(pdn.PareError, match="unknown form 'exakt'; available: exact, paper"):
        information_gain(1.0, 0.4, form="exakt")
    with pytest.raises(pdn.PareError, match="unknown value of missing"):
        information_gain(1.0, 0.4, missing="drop")
    with pytest.raises(pdn.PareError, match="keep_fraction must be in"):
        information_gain(1.0, 0.0)
