"""Splines on manifolds against closed forms, the Euler-Lagrange equation, isometries and the paper's node equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dalembert as da
from dalembert.boundary.splines import grid
from dalembert.discretize import Hermite
from dalembert.gallery import riemannian_cubic as parallel

M = da.manifolds
SPHERE = M.sphere()
TIMES = (0.0, 1.0, 2.0, 3.0, 4.0)
ANGLES = np.array([[0.3, 0.0], [0.9, 0.8], [0.2, 1.7], [-0.5, 2.6], [0.1, 3.8]])
PLACES = np.stack(
    [np.cos(ANGLES[:, 0]) * np.cos(ANGLES[:, 1]), np.cos(ANGLES[:, 0]) * np.sin(ANGLES[:, 1]), np.sin(ANGLES[:, 0])], 1
)
FIVE = dict(zip(TIMES, PLACES, strict=True))


def clamped(scheme, steps):
    """The parallel at 45°, given by its ends."""
    ends = {t: parallel.exact(t) for t in (0.0, 1.5)}
    first, last = (parallel.velocity(0.0),), (parallel.velocity(1.5),)
    return da.spline(SPHERE, ends, initial=first, final=last, steps=steps, scheme=scheme)


@pytest.fixture(scope="module")
def fine():
    return clamped(Hermite(), 16)


@pytest.fixture(scope="module")
def free():
    """Through five points, ends free."""
    return da.spline(SPHERE, FIVE, steps=40, scheme=Hermite())


def error(solution):
    return np.abs(solution.q - parallel.exact(solution.t)).max()


def test_a_cubic_in_closed_form_with_the_order_of_the_scheme(fine):
    assert np.log2(error(clamped(Hermite(), 8)) / error(fine)) == pytest.approx(4.0, abs=0.1)
    coarse, middle = clamped(None, 16), clamped(None, 32)
    assert np.log2(error(coarse) / error(middle)) == pytest.approx(2.0, abs=0.1)
    assert fine.kind == "minimum"
    assert float(fine.action) == pytest.approx(1.5 / 8, rel=1e-7)


def differentiated(solution, middle, k, reach=4):
    """(q, q̇, …, q⁽ᵏ⁾) at a node, from the polynomial through its neighbours."""
    near = slice(middle - reach, middle + reach + 1)
    t, q = np.asarray(solution.t[near] - solution.t[middle]), np.asarray(solution.q[near])
    taylor = np.linalg.solve(np.vander(t / t[-1], increasing=True), q) / (t[-1] ** np.arange(len(t)))[:, None]
    return [jnp.asarray(taylor[j] * float(np.prod(range(1, j + 1)))) for j in range(k + 1)]


def test_between_the_points_the_euler_lagrange_equation_holds(free):
    """By the sixth derivative of the nodes' polynomial: errors of the spline are 1e-6, their fourth differences 1e-4."""
    residual = jax.jit(lambda z: M.euler_lagrange(SPHERE, z))
    for middle in (5, 15, 25, 35):
        jet = differentiated(free, middle, 4)
        curvature = SPHERE.curvature(jet[0], *SPHERE.covariant_derivatives(jet[:3])[::-1], jet[1])
        assert np.linalg.norm(residual(jet)) < 2e-4 * np.linalg.norm(curvature)


def test_free_ends_have_no_covariant_acceleration(free):
    """The natural condition Dq̇/dt = 0, continued from the windows next to the ends; and its momentum."""
    inside = jax.jit(jax.vmap(lambda jet: SPHERE.covariant_derivatives(list(jet))[1]))(free.jets)
    size, t = np.linalg.norm(inside, axis=1), free.t_multipliers
    for end, near in ((TIMES[0], slice(0, 6)), (TIMES[-1], slice(-6, None))):
        at_end = [np.polynomial.Polynomial.fit(t[near], row, 5)(end) for row in np.asarray(inside)[near].T]
        assert np.abs(at_end).max() < 1e-3 * size.max()
    assert max(np.abs(p[1]).max() for p in (free.momenta_initial, free.momenta_final)) < 1e-13
    np.testing.assert_allclose(free.q[::10], PLACES, rtol=0, atol=1e-14)
    assert SPHERE.distance(free.q).max() < 1e-12


def test_another_frame_gives_the_same_curve(free):
    turn, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))
    turned = da.spline(SPHERE, {t: turn @ q for t, q in FIVE.items()}, steps=40, scheme=Hermite())
    np.testing.assert_allclose(turned.q, free.q @ turn.T, rtol=0, atol=1e-8)
    assert float(turned.action) == pytest.approx(float(free.action), rel=1e-10)


def test_the_ambient_spline_satisfies_the_papers_equations_and_is_another_curve(free):
    """h⁻³δ⁴q + 2λq = 0 at the nodes that are not given, λ by the paper's formula: section 4.4."""
    found = da.spline(SPHERE, FIVE, steps=40, ambient=True)
    q, h = np.asarray(found.q), 0.1
    fourth = (q[4:] - 4 * q[3:-1] + 6 * q[2:-2] - 4 * q[1:-3] + q[:-4]) / h**3
    multiplier = -np.sum(fourth * q[2:-2], axis=1) / 2
    residual = fourth + 2 * multiplier[:, None] * q[2:-2]
    inner = np.array([i % 10 != 0 for i in range(2, 39)])
    assert np.abs(residual[inner]).max() < 1e-8 < 1.0 < np.abs(residual[~inner]).max()
    assert np.abs(q - free.q).max() > 0.01


def test_three_derivatives_on_a_great_circle_of_quintic_arc_length():
    arc = np.polynomial.Polynomial([0.2, 1.0, 0.0, -1.0, 0.0, 0.3])

    def jet(t):
        s, d, a = arc(t), arc.deriv()(t), arc.deriv(2)(t)
        radial, along = (
            np.array([np.cos(s), 0.6 * np.sin(s), 0.8 * np.sin(s)]),
            np.array([-np.sin(s), 0.6 * np.cos(s), 0.8 * np.cos(s)]),
        )
        return radial, d * along, a * along - d**2 * radial

    first, last = jet(0.0), jet(1.0)
    ends = {0.0: first[0], 1.0: last[0]}
    given = {"initial": first[1:], "final": last[1:], "steps": 10}
    found = da.spline(SPHERE, ends, derivatives=3, scheme=Hermite(), **given)
    wanted = np.array([jet(t)[0] for t in np.asarray(found.t)])
    assert np.abs(found.q - wanted).max() < 1e-8


def test_both_models_of_the_hyperbolic_plane_give_one_curve():
    points = {0.0: [0.0, 1.0], 1.0: [1.0, 0.5], 1.5: [2.0, 1.5]}

    def to_disk(q):
        x, y = q[..., 0], q[..., 1]
        return np.stack([x**2 + y**2 - 1, -2 * x], axis=-1) / (x**2 + (y + 1) ** 2)[..., None]

    here = da.spline(M.hyperbolic_plane(), points, steps=24, scheme=Hermite())
    disk = {t: to_disk(np.array(q)) for t, q in points.items()}
    there = da.spline(M.hyperbolic_plane("disk"), disk, steps=24, scheme=Hermite())
    np.testing.assert_allclose(to_disk(np.asarray(here.q)), there.q, rtol=0, atol=1e-4)
    assert float(here.action) == pytest.approx(float(there.action), rel=1e-4)


def test_opposite_neighbours_are_refused_and_a_guess_decides():
    points = {0.0: [1.0, 0.0, 0.0], 1.0: [-1.0, 0.0, 0.0]}
    with pytest.raises(ValueError, match="those at t = 0 and 1 are opposite: several shortest curves"):
        da.spline(SPHERE, points, derivatives=1)
    south = da.spline(SPHERE, points, derivatives=1, steps=20,
                      guess=lambda t: jnp.stack([jnp.cos(jnp.pi * t), 0 * t, -jnp.sin(jnp.pi * t)], 1))  # fmt: skip
    np.testing.assert_allclose(south.q[10], [0.0, 0.0, -1.0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": {0.0: [1.0, 0.0, 0.0], 1.0: [0.0, 1.1, 0.0]}}, "not on the manifold, in distance 0.0955 at t = 1"),
        ({"points": {0.0: [1.0, 0.0, 0.0]}}, "points: found 1"),
        ({"points": [1.0]}, "points: found list"),
        ({"points": {0.0: [1.0, 0.0, 0.0], 1.0: [1.0, 0.0]}}, "points: found shapes"),
        ({"points": {0.0: [1.0, 0.0, 0.0], np.nan: [0.0, 1.0, 0.0]}}, "points: a time: found nan"),
        ({"initial": ([1.0, 1.0, 0.0],)}, "initial: derivative 1 is not tangent to the manifold"),
        ({"final": ([1.0, 0.0, 0.0], [0.0, 0.0, 0.0])}, "final: found 2 derivatives"),
        ({"derivatives": 3, "final": ([1.0, 0.0, 0.0], [0.0, 0.0, 0.0])}, "final: derivative 2 misses that of curves"),
        ({"final": np.zeros(3)}, "final: found an array"),
        ({"final": ([1.0, 0.0],)}, "final: found shapes"),
        ({"steps": 2.0}, "steps: found 2.0"),
        ({"manifold": M.hyperbolic_plane(), "points": {0.0: [0.0, 1.0], 1.0: [0.0, 0.0]}}, "points: at t = 1 the metric"),
        ({"manifold": M.hyperbolic_plane(), "ambient": True}, "manifold: found Chart"),
    ],
)  # fmt: skip
def test_mistakes_name_the_argument(change, message):
    given = {"manifold": SPHERE, "points": {0.0: [1.0, 0.0, 0.0], 1.0: [0.0, 1.0, 0.0]}} | change
    with pytest.raises((ValueError, TypeError), match=message):
        da.spline(given.pop("manifold"), given.pop("points"), **given)


def test_the_grid_has_the_given_times_and_equal_steps_where_that_is_possible():
    np.testing.assert_array_equal(grid(np.array([0.0, 0.5, 2.0]), 8), np.arange(9) / 4)
    t = grid(np.array([0.0, 0.3, 1.0]), 7)
    assert len(t) == 8
    assert 0.3 in t
    assert np.diff(t).max() / np.diff(t).min() < 1.5
    with pytest.raises(ValueError, match="steps: found 1; 3 points have 2 stretches"):
        grid(np.array([0.0, 0.3, 1.0]), 1)
