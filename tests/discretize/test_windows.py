"""Windows: exact on polynomials, weights that add up, second differences on uneven meshes."""

from __future__ import annotations

import numpy as np
import pytest

from dalembert.discretize import Averaged, Hermite, Interpolated, window_jets, windows

EVEN = np.linspace(0.0, 1.0, 7)


def jets_of(w, polynomial):
    """What the windows see of a polynomial, (W·S, k+1), and its derivatives at the same times."""
    slots = np.array(
        [polynomial.deriv(o)(w.t[i]) if o else polynomial(w.t[i]) for o, i in zip(w.orders, w.owners, strict=True)]
    )
    seen, true = [], []
    for i in range(len(w.times)):
        x = slots[w.stride * i : w.stride * i + w.width, None]
        seen.extend(np.asarray(window_jets(w.rows[i], w.chained[i], x, w.stride))[:, :, 0])
        true.extend([[polynomial(t), *(polynomial.deriv(j)(t) for j in range(1, w.rows.shape[2]))] for t in w.times[i]])
    return np.array(seen), np.array(true)


@pytest.mark.parametrize("scheme", [Interpolated(), Averaged(), Hermite()], ids=lambda s: s.name)
@pytest.mark.parametrize("t", [EVEN, EVEN**1.4], ids=["even", "uneven"])
@pytest.mark.parametrize("jets", [(True, True), (False, False), (True, False)])
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_exact_on_polynomials(scheme, t, jets, k):
    w = windows(scheme, k, t, jets)
    degree = {"interpolated": k, "averaged": 1, "hermite": 2 * k - 1}[scheme.name]
    seen, true = jets_of(w, np.polynomial.Polynomial(np.arange(1.0, degree + 2.0)))
    on = (
        slice(0, 1) if scheme.name == "averaged" and k > 1 else slice(None)
    )  # its mean of positions sits at the mean of times
    scale = np.max(np.abs(true), axis=0)[on] * (1.0 / np.min(np.diff(t))) ** np.arange(k + 1)[on]
    assert np.max(np.abs(seen - true)[:, on] / scale) < 1e-13
    highest = jets_of(w, np.polynomial.Polynomial(np.arange(1.0, k + 2.0)))
    for found, wanted, order in ((seen, true, 1), (*highest, k)):  # divided differences of order k are exact on degree k
        size = np.max(np.abs(wanted), axis=0) * (1.0 / np.min(np.diff(t))) ** order
        assert np.max(np.abs(found - wanted)[:, order]) < 1e-13 * size[order]


@pytest.mark.parametrize("scheme", [Interpolated(), Averaged(), Hermite()], ids=lambda s: s.name)
@pytest.mark.parametrize("k", [1, 2, 3])
def test_weights_cover_the_time(scheme, k):
    assert np.sum(windows(scheme, k, EVEN**1.3).weights) == pytest.approx(1.0, abs=1e-14)
    covered = np.sum(windows(scheme, k, EVEN, (False, False)).weights)
    assert covered == pytest.approx(1.0 if scheme.name == "hermite" else 1.0 - (k - 1) / 6, abs=1e-14)


def test_constants_have_no_derivatives_to_the_last_digit():
    for scheme in (Interpolated(), Averaged(), Hermite()):
        w = windows(scheme, 2, np.linspace(0.0, 1.0, 1001))
        x = np.where(w.orders[:, None] == 0, 1e6 * np.pi, 0.0)
        for i in (0, 1, 500, len(w.rows) - 1):
            jets = np.asarray(window_jets(w.rows[i], w.chained[i], x[w.stride * i : w.stride * i + w.width], w.stride))
            assert np.all(jets[:, 1:] == 0.0)


def test_the_printed_second_difference_is_inconsistent_off_uniform_meshes():
    """(q₂-q₁)/h₁² - (q₁-q₀)/(h₀h₁) of q = t²/2 is (1 + h₀/h₁)/2: 0.8333 for h₁ = 1.5 h₀; ours is 1."""
    h0, h1 = 1.0, 1.5
    q = np.array([0.0, h0, h0 + h1]) ** 2 / 2
    printed = (q[2] - q[1]) / h1**2 - (q[1] - q[0]) / (h0 * h1)
    assert printed == pytest.approx(0.5 * (1 + h0 / h1), abs=1e-15)
    w = windows(Averaged(), 2, np.array([0.0, h0, h0 + h1]), (False, False))
    assert np.asarray(window_jets(w.rows[0], w.chained[0], q[:, None], 1))[0, 2, 0] == pytest.approx(1.0, abs=1e-15)
