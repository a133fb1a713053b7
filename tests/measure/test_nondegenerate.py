"""Proposition 3.2 and Remark 3.4 of the third paper: Ω is nondegenerate exactly where the matrix of the flow is regular."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.measure import poincare_cartan
from dalembert.systems import constraint_rates

# L = ½|top|², φ = top₀ + ½ m₁² with h = 1 and the mean m of a window (`Averaged`): the matrices below are derived by hand.
PROBLEMS = {
    k: da.VariationalProblem(lambda *x: 0.5 * x[-1] @ x[-1], lambda *x: x[-1][0] + 0.5 * x[0][1] ** 2, derivatives=k)
    for k in (1, 2)
}
NODES = np.array([[0.3, 0.5], [0.1, 0.8], [0.4, -0.6], [-0.2, 0.9]])


def matrix(k, window, multiplier):
    """[[D₁D_{k+1}L̃_d, (D₁Φ_d)ᵀ], [D_{k+1}Φ_d, 0]] of a window; first difference k = 1, second difference k = 2."""
    mean, sign, part = window[:, 1].mean(), (-1.0) ** k, 1.0 / (k + 1)
    mixed = np.diag([sign, sign + multiplier * part**2])
    first, last = np.array([[sign, part * mean]]), np.array([[1.0, part * mean]])
    return np.block([[mixed, first.T], [last, np.zeros((1, 1))]])


def singular_multiplier(k, window):
    """λ with D_{k+1}Φ (D₁D_{k+1}L̃)⁻¹ D₁Φᵀ = 1 + (m/(k+1))²/(±1 + λ/(k+1)²) = 0."""
    mean, part = window[:, 1].mean(), 1.0 / (k + 1)
    return -((part * mean) ** 2 + (-1.0) ** k) / part**2


def nullity(k, nodes, multipliers):
    """Of Ω = -dΘ⁺ on M̃_d × R^{km}: Θ⁺ and Φ_d are polynomials of degree 2, whose central differences are exact."""
    size, p = nodes.size, k * 2
    split = lambda x: (x[:size].reshape(-1, 2), x[size:].reshape(k, 1))  # noqa: E731

    def theta(x):
        found = np.zeros_like(x)
        found[size - p : size] = np.ravel(poincare_cartan(PROBLEMS[k], *split(x), h=1.0, scheme=da.Averaged()).plus)
        return found

    def phi(x):
        windows = [split(x)[0][i : i + k + 1] for i in range(k)]
        return np.array([np.diff(w[:, 0], k)[0] + 0.5 * w[:, 1].mean() ** 2 for w in windows])

    x = np.concatenate([nodes.ravel(), multipliers])
    slope = lambda f: np.stack([0.5 * (f(x + e) - f(x - e)) for e in np.eye(len(x))], axis=1)  # noqa: E731
    by, kernel = slope(theta), np.linalg.svd(slope(phi))[2][k:].T
    omega = kernel.T @ (by - by.T) @ kernel
    return len(omega) - np.linalg.matrix_rank(omega, tol=1e-9)


@pytest.mark.parametrize("k", [1, 2])
def test_degenerate_exactly_where_the_matrix_is_singular(k):
    """Each window counts, each of them twice: a null vector for q and one for its conjugate."""
    nodes, free = NODES[: 2 * k], np.linspace(0.3, 0.7, k)
    windows = [nodes[i : i + k + 1] for i in range(k)]
    assert nullity(k, nodes, free) == 0
    assert all(np.linalg.matrix_rank(matrix(k, *x)) == 3 for x in zip(windows, free, strict=True))
    for i, window in enumerate(windows):
        critical = free.copy()
        critical[i] = singular_multiplier(k, window)
        assert np.linalg.matrix_rank(matrix(k, window, critical[i])) == 2
        assert nullity(k, nodes, critical) == 2


def turning(q):
    return np.stack([-q[:, 1], q[:, 0]], axis=1)


@pytest.mark.parametrize("k", [2, 3])
def test_momenta_with_constraints(k):
    """Remark 3.5 for a rotation: Θ⁺·ξ = Θ⁻·ξ at any nodes, and from one run of nodes to the next it changes by -EL̃_d·ξ,
    which is zero along Υ_d; not without the symmetry of the constraint."""
    random = np.random.default_rng(2)
    nodes, free = random.normal(size=(2 * k + 1, 2)), random.normal(size=(k + 1, 1))
    cross = lambda x, y: x[0] * y[1] - x[1] * y[0]  # noqa: E731
    lagrangian = lambda *x: 0.5 * x[-1] @ x[-1] * (1 + x[0] @ x[0]) - jnp.cos(x[1] @ x[1])  # noqa: E731

    def momenta(problem, i):
        found = poincare_cartan(problem, nodes[i : i + 2 * k], free[i : i + k], h=0.7)
        ends = (found.minus, nodes[i : i + k]), (found.plus, nodes[i + k : i + 2 * k])
        return [float(np.sum(theta * turning(x))) for theta, x in ends]

    problem = da.VariationalProblem(lagrangian, lambda *x: cross(x[1], x[-1]) - 0.3 * x[0] @ x[0], derivatives=k)
    minus, plus = momenta(problem, 0)
    assert plus == pytest.approx(minus, rel=1e-12)
    assert abs(plus) > 1.0
    defect = da.measure.euler_lagrange_operator(problem, nodes, free, h=0.7) @ turning(nodes[k : k + 1])[0]
    assert momenta(problem, 1)[1] - minus == pytest.approx(-float(defect), rel=1e-9)
    bent = da.VariationalProblem(lagrangian, lambda *x: x[-1][0] - 0.3 * x[0] @ x[0], derivatives=k)
    assert abs(np.diff(momenta(bent, 0))[0]) > 0.1


def area(x, y):
    return x[0] * y[1] - x[1] * y[0]


def test_the_momentum_of_a_rotation_is_kept_with_a_constraint_of_order_three():
    """k = 3: along Υ_d from jets, to the rounding of the nodes, 4² ε |q| |ξ|/h⁵."""
    problem = da.VariationalProblem(
        lambda q, v, a, j: 0.5 * j @ j - 0.5 * a @ a + 0.5 * v @ v - 0.05 * (q @ q) ** 2,
        lambda q, v, a, j: area(v, j) - 0.3 * area(q, v) * (v @ v),
        derivatives=3,
    )
    jets = consistent(problem, np.array([[1.0, 0.2], [0.1, 0.9], [-0.6, 0.3], [0.2, -0.5], [0.3, 0.1], [-0.2, 0.2]]))
    path = da.simulate(problem, start=da.Start(jets=jets, multipliers=[[0.1], [0.2], [0.3]]), h=0.05, steps=24)
    found = da.measure.momentum(problem, path, lambda q: jnp.stack([-q[1], q[0]]))
    assert abs(found.values[0]) > 0.1
    assert found.range < 16 * 2.3e-16 * 2.0 / 0.05**5


def consistent(problem, jets):
    """The nearest derivatives with which the constraint and its derivatives vanish."""
    left = lambda x: jnp.concatenate([jnp.ravel(y) for f in constraint_rates(problem, x, 0.0) for y in f])  # noqa: E731
    for _ in range(8):
        slopes = np.asarray(jax.jacfwd(left)(jnp.asarray(jets))).reshape(-1, jets.size)
        jets = jets - np.linalg.lstsq(slopes, np.asarray(left(jnp.asarray(jets))))[0].reshape(jets.shape)
    return jets
