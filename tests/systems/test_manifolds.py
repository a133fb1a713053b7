"""Manifolds against closed forms: curvature, charts against embeddings, rotations against the algebra of quaternions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.jet import jet as taylor

import dalembert as da
from dalembert.systems.manifolds.manifold import left_translation
from dalembert.systems.manifolds.splines import warn_of_scalar_last

M = da.manifolds
T = 0.7


def jet(curve, k, t=T):
    """(q, q̇, …, q⁽ᵏ⁾) of a curve, by Taylor's series: nested derivatives of order 6 take minutes."""
    q, rest = jax.jit(lambda s: taylor(curve, (s,), ([1.0] + [0.0] * (k - 1),)))(t)
    return [q, *rest]


def great_circle(arc):
    def curve(t):
        s = sum(c * t**i for i, c in enumerate(reversed(arc)))
        return jnp.array([jnp.cos(s), 0.6 * jnp.sin(s), 0.8 * jnp.sin(s)])

    return curve


def half_plane_curve(t):
    return jnp.array([0.3 + t - t**3, 1.2 + jnp.sin(2 * t) / 2])


def to_disk(q):
    """w = (z - i)/(z + i)."""
    x, y = q
    size = x**2 + (y + 1) ** 2
    return jnp.array([x**2 + y**2 - 1, -2 * x]) / size


def generic_rotation(t):
    q = jnp.array([1 + t, t**2 - 0.5, 0.3 - t**3, 0.5 * t + 0.2])
    return q / jnp.linalg.norm(q)


def body(q, x):
    """2 Lᵀx: (0, ω) of a tangent vector x at q."""
    return 2.0 * left_translation(q).T @ x


@pytest.mark.parametrize(
    ("manifold", "q", "curvature"),
    [
        (M.sphere(2.0), [0.0, 1.2, 1.6], 0.25),
        (M.hyperbolic_plane(), [0.3, 0.7], -1.0),
        (M.hyperbolic_plane("disk"), [0.3, -0.4], -1.0),
        (M.torus(2.0, 0.5), [1.5, 0.0, 0.0], -1 / (0.5 * 1.5)),
        (M.ellipsoid([1.0, 2.0, 3.0]), [0.0, 0.0, 3.0], 9.0 / (1.0 * 4.0)),
    ],
)
def test_curvature(manifold, q, curvature):
    """Of a surface: R(x, y)z = K(⟨y, z⟩x - ⟨x, z⟩y)."""

    @jax.jit
    def both_sides(q, *vectors):
        x, y, z = (manifold.tangent(q, v) for v in vectors)
        wanted = curvature * (manifold.inner(q, y, z) * x - manifold.inner(q, x, z) * y)
        return manifold.curvature(q, x, y, z), wanted

    found, wanted = both_sides(jnp.array(q), *np.random.default_rng(0).normal(size=(3, len(q))))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_a_chart_of_the_sphere_has_the_covariant_derivatives_of_the_embedding():
    chart = M.Chart(lambda q: jnp.diag(jnp.array([1.0, jnp.sin(q[0]) ** 2])))
    inclusion = lambda q: jnp.array([jnp.sin(q[0]) * jnp.cos(q[1]), jnp.sin(q[0]) * jnp.sin(q[1]), jnp.cos(q[0])])  # noqa: E731
    angles = lambda t: jnp.array([1.0 + 0.5 * jnp.sin(2 * t), t + t**2])  # noqa: E731
    inside = jet(angles, 4)
    here = jax.jit(chart.covariant_derivatives)(inside)
    there = jax.jit(M.sphere().covariant_derivatives)(jet(lambda t: inclusion(angles(t)), 4))
    push = jax.jacfwd(inclusion)(inside[0])
    for j in range(4):
        np.testing.assert_allclose(push @ here[j], there[j], rtol=1e-11, atol=1e-11)


def test_rate_is_the_inverse_of_the_covariant_derivative():
    ellipsoid = M.ellipsoid([1.0, 2.0, 3.0])
    c = lambda t: jnp.array([jnp.cos(t), 2 * jnp.sin(t) * jnp.cos(t**2), 3 * jnp.sin(t) * jnp.sin(t**2)])  # noqa: E731
    q, u, a = jet(c, 2)
    there_and_back = jax.jit(lambda q, u, a: ellipsoid.rate(q, u, u, ellipsoid.covariant(q, u, u, a)))
    np.testing.assert_allclose(there_and_back(q, u, a), a, rtol=0, atol=1e-12)


def parallel(t):
    return jnp.array([jnp.cos(1.3 * t), jnp.sin(1.3 * t), 1.0]) / jnp.sqrt(2.0)


def test_the_parallel_at_45_degrees_and_great_circles_of_cubic_arc_length_are_cubics():
    sphere = M.sphere()
    residual = jax.jit(lambda z: M.euler_lagrange(sphere, z))
    lagrangian = M.riemannian_spline(sphere).lagrangian
    np.testing.assert_allclose(residual(jet(parallel, 4)), 0.0, atol=1e-13)
    np.testing.assert_allclose(lagrangian(*jet(parallel, 2)), 1.3**4 / 8, rtol=1e-13)
    np.testing.assert_allclose(residual(jet(great_circle([0.3, -1.0, 1.0, 0.2]), 4)), 0.0, atol=1e-12)
    assert np.abs(residual(jet(great_circle([0.3, 0.0, 0.0, 1.0, 0.2]), 4))).max() > 1.0


def test_great_circles_of_quintic_arc_length_are_splines_with_three_derivatives():
    residual = jax.jit(lambda z: M.euler_lagrange(M.sphere(), z))
    np.testing.assert_allclose(residual(jet(great_circle([0.3, 0.0, -1.0, 0.0, 1.0, 0.2]), 6)), 0.0, atol=1e-10)
    assert np.abs(residual(jet(great_circle([0.3, 0.0, 0.0, 0.0, 1.0, 0.2, 0.0]), 6))).max() > 1.0


def test_rotations_obey_the_cubic_equation_of_the_angular_velocity():
    """Along any curve the residual is ω⃛ - ω̈ × ω in the body's axes: Noakes, Heinzinger, Paden 1989."""
    q, *speeds = jet(generic_rotation, 4)
    _, rate, second, third = jet(lambda t: body(generic_rotation(t), jax.jacfwd(generic_rotation)(t)), 3)
    omega = body(q, speeds[0])
    found = body(q, jax.jit(lambda z: M.euler_lagrange(M.rotations(), z))([q, *speeds]))
    np.testing.assert_allclose(found[1:], third[1:] - np.cross(second[1:], omega[1:]), rtol=1e-10)
    np.testing.assert_allclose(found[0], 0.0, atol=1e-10)
    covariant = jax.jit(M.rotations(2.0).covariant)(q, speeds[0], speeds[0], speeds[1])
    np.testing.assert_allclose(body(q, covariant), rate, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(M.rotations(2.0).inner(q, covariant, covariant), 2.0 * rate @ rate, rtol=1e-12)


def test_geodesics_of_a_body_are_eulers_equations():
    """J Dω/dt = J ω̇ - Jω × ω along any curve."""
    inertia = np.array([1.0, 2.0, 3.5])
    q, v, a = jet(generic_rotation, 2)
    omega, rate = jet(lambda t: body(generic_rotation(t), jax.jacfwd(generic_rotation)(t)), 1)
    found = body(q, jax.jit(M.rotations(inertia.tolist()).covariant)(q, v, v, a))
    omega, rate = np.asarray(omega)[1:], np.asarray(rate)[1:]
    np.testing.assert_allclose(inertia * found[1:], inertia * rate - np.cross(inertia * omega, omega), rtol=1e-10)


def test_the_models_of_the_hyperbolic_plane_are_isometric():
    here, there = M.hyperbolic_plane(), M.hyperbolic_plane("disk")
    z, w = jet(half_plane_curve, 3), jet(lambda t: to_disk(half_plane_curve(t)), 3)

    def lengths(manifold, jet):
        return [manifold.inner(jet[0], u, u) for u in manifold.covariant_derivatives(jet)]

    of_both = (jax.jit(functools.partial(lengths, m))(x) for m, x in ((here, z), (there, w)))
    np.testing.assert_allclose(*map(np.stack, of_both), rtol=1e-11)


def test_projection_and_distance():
    ellipsoid = M.ellipsoid([1.0, 2.0, 3.0])
    away = np.random.default_rng(1).normal(size=(20, 3))
    assert ellipsoid.distance(ellipsoid.project(away)).max() < 1e-14
    np.testing.assert_allclose(M.sphere(2.0).project(away), 2.0 * away / np.linalg.norm(away, axis=1)[:, None], rtol=1e-14)
    np.testing.assert_allclose(M.sphere().distance([0.0, 0.0, 1.0 + 1e-6]), 1e-6, rtol=1e-5)
    assert np.all(np.isnan(M.sphere().project([0.0, 0.0, 0.0])))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: M.sphere(-1.0), "radius: found -1.0"),
        (lambda: M.torus(1.0, 2.0), "tube: found 2.0"),
        (lambda: M.hyperbolic_plane("ball"), "model: found 'ball'"),
        (lambda: M.rotations([1.0, 2.0]), "inertia: found 2 numbers"),
        (lambda: M.euler_lagrange(M.sphere(), [jnp.ones(3)] * 4), "jet: found 4 arrays"),
        (lambda: M.ambient_spline(M.hyperbolic_plane()), "manifold: found Chart"),
        (lambda: M.riemannian_spline(lambda q: q), "manifold: found function"),
    ],
)
def test_mistakes_name_the_argument(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_a_quaternion_that_looks_scalar_last_gets_a_warning():
    """(0, 0, 0, 1) is no rotation with the scalar last; other rotations, and points of other spheres, are left alone."""
    identity, turned = [0.0, 0.0, 0.0, 1.0], [np.cos(0.2), 0.0, 0.0, np.sin(0.2)]
    with pytest.warns(UserWarning, match=r"\(w, x, y, z\) here, the scalar first"):
        warn_of_scalar_last(M.rotations(), np.array([identity, turned]))
    warn_of_scalar_last(M.rotations([1.0, 2.0, 3.0]), np.array([[1.0, 0.0, 0.0, 0.0], turned]))
    warn_of_scalar_last(M.sphere(), np.array([identity, turned]))
